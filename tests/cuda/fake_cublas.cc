// The products of cuBLAS that launchers call, as plain loops over matrices stored by columns.
#include <cstdint>
#include <cstring>
#include "fake_graph.hpp"
#include "shim.hpp"

enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };

static double load(const void* p, int type, int64_t i) {
    switch (type) {
        case F32: return ((const float*)p)[i];
        case F64: return ((const double*)p)[i];
        case F16: return half_to_float(((const uint16_t*)p)[i]);
        default: {
            uint32_t bits = (uint32_t)((const uint16_t*)p)[i] << 16;
            float f;
            memcpy(&f, &bits, 4);
            return f;
        }
    }
}

static void store(void* p, int type, int64_t i, double v) {
    switch (type) {
        case F32: ((float*)p)[i] = (float)v; break;
        case F64: ((double*)p)[i] = v; break;
        case F16: ((uint16_t*)p)[i] = float_to_half((float)v); break;
        default: {
            float f = (float)v;
            uint32_t bits;
            memcpy(&bits, &f, 4);
            ((uint16_t*)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
    }
}

static int last_compute = 0;

extern "C" {
int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
    return handle == (void*)5 && workspace && bytes ? 0 : 7;
}

// The compute type of the last product.
int fake_compute_type() { return last_compute; }

// alpha and beta are double for double products, else float.
int cublasGemmStridedBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                               int at, int lda, int64_t sa, const void* b, int bt, int ldb, int64_t sb,
                               const void* beta, void* c, int ct, int ldc, int64_t sc, int count, int compute,
                               int algorithm) {
    (void)algorithm;
    if (handle != (void*)5 || at != bt || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 7;
    last_compute = compute;
    if ((compute == 70) != (at == F64)) return 15;
    const int scalar = at == F64 ? F64 : F32;
    const double x = load(alpha, scalar, 0), y = load(beta, scalar, 0);
    run([=] {
        for (int64_t s = 0; s < count; s++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < m; i++) {
                    double sum = 0;
                    for (int64_t l = 0; l < k; l++)
                        sum += load(a, at, s * sa + (ta ? i * lda + l : l * lda + i)) *
                               load(b, bt, s * sb + (tb ? l * ldb + j : j * ldb + l));
                    const int64_t to = s * sc + j * ldc + i;
                    store(c, ct, to, x * sum + (y == 0 ? 0 : y * load(c, ct, to)));
                }
    });
    return 0;
}

int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda,
                 const void* b, int bt, int ldb, const void* beta, void* c, int ct, int ldc, int compute,
                 int algorithm) {
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc,
                                      0, 1, compute, algorithm);
}
}
