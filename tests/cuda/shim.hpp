// CUDA kernels as plain C++: the threads of a block are fibers of one thread, which yield at barriers and shuffles.
// Blocks run one after the other, so `__shared__` is static memory.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)
#define OAR_DEVICE static inline

struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

constexpr int WARP = 32;
constexpr size_t STACK = 64 << 10;

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
    uint64_t value;  // what this thread offers in a shuffle
};

// Threads that have come to a barrier; it opens when all that still run have.
struct Barrier {
    int waiting = 0, members = 0;
    unsigned long opened = 0;
    void check() {
        if (members > 0 && waiting == members) waiting = 0, opened++;
    }
};

static std::vector<Fiber> fibers;
static std::vector<Barrier> warps;
static Barrier block;
static ucontext_t scheduler;
static int current;
static const std::function<void()>* body;

static void yield() { swapcontext(&fibers[current].context, &scheduler); }

static void wait(Barrier& b) {
    unsigned long turn = b.opened;
    b.waiting++;
    b.check();
    while (b.opened == turn) yield();
}

static void entry() {
    (*body)();
    fibers[current].done = true;
    block.members--, block.check();
    Barrier& warp = warps[current / WARP];
    warp.members--, warp.check();
    swapcontext(&fibers[current].context, &scheduler);
}

static void run_block(int threads) {
    if ((int)fibers.size() < threads) fibers.resize(threads);
    warps.assign((threads + WARP - 1) / WARP, Barrier());
    block = Barrier();
    block.members = threads;
    for (int t = 0; t < threads; t++) {
        Fiber& f = fibers[t];
        warps[t / WARP].members++;
        f.done = false;
        f.stack.resize(STACK);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = &scheduler;
        makecontext(&f.context, entry, 0);
    }
    for (int left = threads; left > 0;) {
        left = 0;
        for (current = 0; current < threads; current++) {
            if (fibers[current].done) continue;
            threadIdx = {(unsigned)current, 0, 0};
            swapcontext(&scheduler, &fibers[current].context);
            left += !fibers[current].done;
        }
    }
}

static void launch(dim3 grid, unsigned threads, const std::function<void()>& f) {
    body = &f;
    gridDim = grid;
    blockDim = {threads, 1, 1};
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                run_block((int)threads);
            }
}

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<A>*>(values[I])...);
}

// Runs a kernel on arguments given by address.
template <typename... A> int start(void (*kernel)(A...), const unsigned* grid, unsigned threads, void** values, int n) {
    if (n != (int)sizeof...(A)) return (int)sizeof...(A);
    launch({grid[0], grid[1], grid[2]}, threads,
           [&] { call(kernel, values, std::index_sequence_for<A...>()); });
    return -1;
}

// The value that the thread `source` of this warp offers (its own where there is none).
template <typename T> T shuffle(T v, int source, bool there) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "shuffles take up to 8 bytes");
    Barrier& warp = warps[current / WARP];
    memcpy(&fibers[current].value, &v, sizeof v);
    wait(warp);
    int from = current / WARP * WARP + source;
    if (there && from < (int)blockDim.x) memcpy(&v, &fibers[from].value, sizeof v);
    wait(warp);
    return v;
}

}  // namespace shim

static inline void __syncthreads() { shim::wait(shim::block); }
static inline void __syncwarp(unsigned = ~0u) { shim::wait(shim::warps[shim::current / shim::WARP]); }
template <typename T> T __shfl_down_sync(unsigned, T v, int d) {
    int lane = threadIdx.x % shim::WARP;
    return shim::shuffle(v, lane + d, lane + d < shim::WARP);
}
template <typename T> T __shfl_up_sync(unsigned, T v, int d) {
    int lane = threadIdx.x % shim::WARP;
    return shim::shuffle(v, lane - d, lane >= d);
}
template <typename T> T __shfl_xor_sync(unsigned, T v, int mask) {
    return shim::shuffle(v, (threadIdx.x % shim::WARP) ^ mask, true);
}
template <typename T> T __shfl_sync(unsigned, T v, int lane) { return shim::shuffle(v, lane % shim::WARP, true); }

// One thread of the host runs everything: what is atomic on a device is so here.
template <typename T> T atomicAdd(T* at, T v) { T old = *at; *at = old + v; return old; }
template <typename T> T atomicExch(T* at, T v) { T old = *at; *at = v; return old; }
template <typename T> T atomicMax(T* at, T v) { T old = *at; *at = v > old ? v : old; return old; }
template <typename T> T atomicCAS(T* at, T was, T v) { T old = *at; if (old == was) *at = v; return old; }

// The inverse of erf by Newton's steps.
static inline double erfinv(double y) {
    double x = 0;
    for (int i = 0; i < 60; i++) x -= (std::erf(x) - y) * 0.88622692545275801 * std::exp(x * x);
    return x;
}

static inline float __fdividef(float x, float y) { return x / y; }
template <typename T> T rsqrt(T v) { return T(1) / std::sqrt(v); }

static inline float half_to_float(unsigned short h) {
    int sign = h >> 15, exponent = h >> 10 & 31, fraction = h & 1023;
    float magnitude = exponent == 0    ? std::ldexp((float)fraction, -24)
                      : exponent == 31 ? (fraction ? NAN : INFINITY)
                                       : std::ldexp((float)(fraction + 1024), exponent - 25);
    return sign ? -magnitude : magnitude;
}

// Rounds to the nearest, ties to even.
static inline unsigned short float_to_half(float f) {
    unsigned short sign = std::signbit(f) ? 0x8000 : 0;
    float a = std::fabs(f);
    if (std::isnan(f)) return sign | 0x7e00;
    if (a >= 65520.0f) return sign | 0x7c00;
    if (a < 6.103515625e-05f) return sign | (unsigned short)std::nearbyint(std::ldexp(a, 24));
    int e;
    std::frexp(a, &e);  // a = m * 2^e, 0.5 <= m < 1
    unsigned units = (unsigned)std::nearbyint(std::ldexp(a, 11 - e));  // 1024 .. 2048
    return sign | (unsigned short)(((unsigned)(e + 14) << 10) + units - 1024);
}
