// The functions of cuDNN that launchers call, as plain loops. They return a status other than 0 for arguments that
// cuDNN would not take: descriptors of another kind, sizes that do not match, too small a workspace.
#include <cstdint>
#include <cstring>
#include <vector>
#include "fake_graph.hpp"
#include "shim.hpp"

enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 9, BAD = 2000, UNSUPPORTED = 3000 };
enum Kind { TENSOR = 0x7e1, FILTER, CONVOLUTION, HANDLE };

struct Descriptor {
    Kind kind;
    int type = -1, groups = 1, math = 0, format = 0;
    std::vector<int> dims, strides, pad, stride, dilation;
};
struct Performance {
    int algorithm, status;
    float time;
    size_t memory;
    int deterministic, math, reserved[3];
};
struct Handle {
    Kind kind = HANDLE;
    void* stream = nullptr;
};
static int searches = 0, chosen = -1, refused = 0;

static double load(const void* p, int type, int64_t i) {
    if (type == F32) return ((const float*)p)[i];
    if (type == F64) return ((const double*)p)[i];
    if (type == F16) return half_to_float(((const uint16_t*)p)[i]);
    uint32_t bits = (uint32_t)((const uint16_t*)p)[i] << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void store(void* p, int type, int64_t i, double v) {
    float f = (float)v;
    if (type == F32) ((float*)p)[i] = f;
    else if (type == F64) ((double*)p)[i] = v;
    else if (type == F16) ((uint16_t*)p)[i] = float_to_half(f);
    else {
        uint32_t bits;
        memcpy(&bits, &f, 4);
        ((uint16_t*)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

// The geometry of x, w and y with a third axis of size 1 where there are two.
struct Shape {
    int n, c, k, g, type;
    int size[3], kernel[3], out[3], pad[3], step[3], dilation[3];
    int64_t xs[5], ws[5], ys[5];
};

static bool fill(const Descriptor* d, int64_t* strides, int* size) {
    const int axes = (int)d->dims.size() - 2;
    for (int a = 0; a < 3; a++) strides[a + 2] = 0, size[a] = 1;
    strides[0] = d->strides[0], strides[1] = d->strides[1];
    for (int a = 0; a < axes; a++) strides[5 - axes + a] = d->strides[2 + a], size[3 - axes + a] = d->dims[2 + a];
    return axes == 2 || axes == 3;
}

static int shape(const Descriptor* x, const Descriptor* w, const Descriptor* v, const Descriptor* y, Shape& s) {
    if (!x || !w || !v || !y || x->kind != TENSOR || w->kind != FILTER || v->kind != CONVOLUTION || y->kind != TENSOR)
        return BAD;
    const size_t rank = x->dims.size();
    if (x->type != w->type || x->type != y->type || w->dims.size() != rank || y->dims.size() != rank) return BAD;
    if (v->pad.size() != rank - 2 || v->type != (x->type == F64 ? F64 : F32)) return BAD;
    s.n = x->dims[0], s.c = w->dims[1], s.k = w->dims[0], s.g = v->groups, s.type = x->type;
    if (x->dims[1] != s.c * s.g || y->dims[1] != s.k || s.k % s.g || y->dims[0] != s.n) return BAD;
    if (!fill(x, s.xs, s.size) || !fill(w, s.ws, s.kernel) || !fill(y, s.ys, s.out)) return BAD;
    // Images and filters have the same order in memory.
    if (s.c > 1 && x->dims.size() && (w->format == 1) != (x->strides[1] == 1 && x->strides[rank - 1] != 1) &&
        s.kernel[0] * s.kernel[1] * s.kernel[2] > 1 && s.size[1] * s.size[2] > 1 && s.c * s.g > 1)
        return UNSUPPORTED;
    const int axes = (int)rank - 2;
    for (int a = 0; a < 3; a++) {
        const int i = a - 3 + axes;
        s.pad[a] = i < 0 ? 0 : v->pad[i], s.step[a] = i < 0 ? 1 : v->stride[i];
        s.dilation[a] = i < 0 ? 1 : v->dilation[i];
        const int reach = s.dilation[a] * (s.kernel[a] - 1) + 1;
        if ((s.size[a] + 2 * s.pad[a] - reach) / s.step[a] + 1 != s.out[a]) return BAD;
    }
    return 0;
}

// f(index in x, index in w, index in y) for all products of a convolution, in a fixed order.
template <typename F> static void each(const Shape& s, F f) {
    const int per = s.k / s.g;
    for (int n = 0; n < s.n; n++)
    for (int k = 0; k < s.k; k++)
    for (int a = 0; a < s.out[0]; a++)
    for (int b = 0; b < s.out[1]; b++)
    for (int d = 0; d < s.out[2]; d++)
    for (int c = 0; c < s.c; c++)
    for (int p = 0; p < s.kernel[0]; p++)
    for (int q = 0; q < s.kernel[1]; q++)
    for (int r = 0; r < s.kernel[2]; r++) {
        const int64_t z = a * s.step[0] - s.pad[0] + p * s.dilation[0], y = b * s.step[1] - s.pad[1] + q * s.dilation[1],
                      v = d * s.step[2] - s.pad[2] + r * s.dilation[2];
        if (z < 0 || z >= s.size[0] || y < 0 || y >= s.size[1] || v < 0 || v >= s.size[2]) continue;
        f(n * s.xs[0] + (k / per * s.c + c) * s.xs[1] + z * s.xs[2] + y * s.xs[3] + v * s.xs[4],
          k * s.ws[0] + c * s.ws[1] + p * s.ws[2] + q * s.ws[3] + r * s.ws[4],
          n * s.ys[0] + k * s.ys[1] + a * s.ys[2] + b * s.ys[3] + d * s.ys[4]);
    }
}

static int64_t count(const Descriptor* d) {
    int64_t n = 1;
    for (int v : d->dims) n *= v;
    return n;
}

static int algorithms(const Handle* h, int status, int asked, int* found, Performance* to, int type, int math) {
    if (h->kind != HANDLE || h->stream != (void*)7 || asked < 5 || status) return status ? status : BAD;
    const Performance all[] = {{3, UNSUPPORTED, -1, 0, 1, math, {}}, {6, 0, -1, (size_t)1 << 40, 1, math, {}},
                               {0, 0, -1, 0, 0, math, {}}, {5, 0, -1, 0, 1, 1 - math % 2, {}}, {1, 0, -1, 64, 1, math, {}}};
    *found = 5;
    memcpy(to, all, sizeof all);
    return 0;
}

static int space(int status, int algorithm, size_t* bytes) {
    *bytes = algorithm == 1 ? 64 : 0;
    return status;
}

// What the three functions have in common; `result` is its descriptor.
static int start(const Handle* h, const void* alpha, int algorithm, const void* work, size_t bytes, const void* beta,
                 int status, int type) {
    if (h->kind != HANDLE || h->stream != (void*)7 || status) return status ? status : BAD;
    const int scalar = type == F64 ? F64 : F32;
    if (load(alpha, scalar, 0) != 1 || load(beta, scalar, 0) != 0) return BAD;
    if (algorithm == 5 && refused) return UNSUPPORTED;
    if (algorithm != 0 && algorithm != 1 && algorithm != 5) return UNSUPPORTED;
    if (algorithm == 1 && (!work || bytes < 64)) return BAD;
    chosen = algorithm;
    return 0;
}

extern "C" {
// For tests: Find calls so far; the algorithm of the last call; whether algorithm 5 fails.
int fake_searches() { return searches; }
int fake_chosen() { return chosen; }
void fake_refuse(int on) { refused = on; }

size_t cudnnGetVersion() { return 90000; }
int cudnnCreate(Handle** h) { return *h = new Handle, 0; }
int cudnnSetStream(Handle* h, void* stream) { return h->stream = stream, 0; }
int cudnnCreateTensorDescriptor(Descriptor** d) { return *d = new Descriptor{TENSOR}, 0; }
int cudnnCreateFilterDescriptor(Descriptor** d) { return *d = new Descriptor{FILTER}, 0; }
int cudnnCreateConvolutionDescriptor(Descriptor** d) { return *d = new Descriptor{CONVOLUTION}, 0; }

int cudnnSetTensorNdDescriptor(Descriptor* d, int type, int rank, const int* dims, const int* strides) {
    if (d->kind != TENSOR || rank < 4 || rank > 8) return BAD;
    d->type = type, d->dims.assign(dims, dims + rank), d->strides.assign(strides, strides + rank);
    return 0;
}

int cudnnSetFilterNdDescriptor(Descriptor* d, int type, int format, int rank, const int* dims) {
    if (d->kind != FILTER || rank < 4 || rank > 8 || format < 0 || format > 1) return BAD;
    d->type = type, d->format = format, d->dims.assign(dims, dims + rank), d->strides.assign(rank, 1);
    int step = 1;
    if (format == 1) step = dims[1];
    for (int a = rank - 1; a >= 2; a--) d->strides[a] = step, step *= dims[a];
    d->strides[1] = format == 1 ? 1 : step;
    d->strides[0] = format == 1 ? step : step * dims[1];
    return 0;
}

int cudnnSetConvolutionNdDescriptor(Descriptor* d, int axes, const int* pad, const int* stride, const int* dilation,
                                    int mode, int type) {
    if (d->kind != CONVOLUTION || mode != 1) return BAD;
    for (int a = 0; a < axes; a++)
        if (pad[a] < 0 || stride[a] < 1 || dilation[a] < 1) return BAD;
    d->pad.assign(pad, pad + axes), d->stride.assign(stride, stride + axes);
    d->dilation.assign(dilation, dilation + axes), d->type = type;
    return 0;
}

int cudnnSetConvolutionGroupCount(Descriptor* d, int groups) { return d->groups = groups, d->kind == CONVOLUTION ? 0 : BAD; }
int cudnnSetConvolutionMathType(Descriptor* d, int math) { return d->math = math, math < 0 || math > 3 ? BAD : 0; }

#define QUERIES(NAME, A, B, C, X, W, Y)                                                                              \
    int cudnnGet##NAME##Algorithm_v7(Handle* h, Descriptor* A, Descriptor* B, Descriptor* v, Descriptor* C, int asked,\
                                     int* found, Performance* to) {                                                  \
        Shape s;                                                                                                     \
        return algorithms(h, shape(X, W, v, Y, s), asked, found, to, s.type, v->math);                               \
    }                                                                                                                \
    int cudnnFind##NAME##Algorithm(Handle* h, Descriptor* A, Descriptor* B, Descriptor* v, Descriptor* C, int asked,  \
                                   int* found, Performance* to) {                                                    \
        searches++;                                                                                                  \
        return cudnnGet##NAME##Algorithm_v7(h, A, B, v, C, asked, found, to);                                        \
    }                                                                                                                \
    int cudnnGet##NAME##WorkspaceSize(Handle* h, Descriptor* A, Descriptor* B, Descriptor* v, Descriptor* C,         \
                                      int algorithm, size_t* bytes) {                                                \
        Shape s;                                                                                                     \
        return space(shape(X, W, v, Y, s), algorithm, bytes);                                                        \
    }
QUERIES(ConvolutionForward, x, w, y, x, w, y)
QUERIES(ConvolutionBackwardData, w, y, x, x, w, y)
QUERIES(ConvolutionBackwardFilter, x, y, w, x, w, y)

int cudnnConvolutionForward(Handle* h, const void* alpha, Descriptor* xd, const void* x, Descriptor* wd, const void* w,
                            Descriptor* v, int algorithm, void* work, size_t bytes, const void* beta, Descriptor* yd,
                            void* y) {
    Shape s;
    if (int status = start(h, alpha, algorithm, work, bytes, beta, shape(xd, wd, v, yd, s), xd->type)) return status;
    run([=, n = count(yd)] {
        std::vector<double> sums(n);
        each(s, [&](int64_t a, int64_t b, int64_t c) { sums[c] += load(x, s.type, a) * load(w, s.type, b); });
        for (size_t i = 0; i < sums.size(); i++) store(y, s.type, i, sums[i]);
    });
    return 0;
}

int cudnnConvolutionBackwardData(Handle* h, const void* alpha, Descriptor* wd, const void* w, Descriptor* yd,
                                 const void* y, Descriptor* v, int algorithm, void* work, size_t bytes,
                                 const void* beta, Descriptor* xd, void* x) {
    Shape s;
    if (int status = start(h, alpha, algorithm, work, bytes, beta, shape(xd, wd, v, yd, s), xd->type)) return status;
    run([=, n = count(xd)] {
        std::vector<double> sums(n);
        each(s, [&](int64_t a, int64_t b, int64_t c) { sums[a] += load(y, s.type, c) * load(w, s.type, b); });
        for (size_t i = 0; i < sums.size(); i++) store(x, s.type, i, sums[i]);
    });
    return 0;
}

int cudnnConvolutionBackwardFilter(Handle* h, const void* alpha, Descriptor* xd, const void* x, Descriptor* yd,
                                   const void* y, Descriptor* v, int algorithm, void* work, size_t bytes,
                                   const void* beta, Descriptor* wd, void* w) {
    Shape s;
    if (int status = start(h, alpha, algorithm, work, bytes, beta, shape(xd, wd, v, yd, s), xd->type)) return status;
    run([=, n = count(wd)] {
        std::vector<double> sums(n);
        each(s, [&](int64_t a, int64_t b, int64_t c) { sums[b] += load(x, s.type, a) * load(y, s.type, c); });
        for (size_t i = 0; i < sums.size(); i++) store(w, s.type, i, sums[i]);
    });
    return 0;
}
}
