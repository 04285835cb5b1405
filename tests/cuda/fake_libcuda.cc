// The functions of libcuda that rust/py/src/device/driver.rs calls. A CUfunction is a kernel of the shim; memory is the
// heap's.
#include <atomic>
#include <cstdlib>
#include <cstring>

typedef int (*Start)(int, const unsigned*, unsigned, void**, int);
struct Function {
    Start start;
    int number, arguments;
};
static std::atomic<int> launches{0}, blocks{0}, uploads{0};
static thread_local int contexts = 0;

extern "C" {
// `start` null: a kernel that does nothing.
void* fake_function(void* start, int number) {
    Function* f = new Function{(Start)start, number, 0};
    unsigned none[3] = {0, 0, 0};
    if (start) f->arguments = f->start(number, none, 0, nullptr, -1);
    return f;
}
// A function of a library that does nothing.
int fake_library() { return 0; }
int fake_launches() { return launches; }
int fake_blocks() { return blocks; }
int fake_uploads() { return uploads; }

int cuCtxPushCurrent_v2(void* context) { return context == (void*)11 ? (contexts++, 0) : 201; }
int cuCtxPopCurrent_v2(void** context) {
    *context = (void*)11;
    return contexts-- > 0 ? 0 : 201;
}
int cuMemAllocAsync(unsigned long long* address, size_t bytes, void* stream) {
    if (!contexts || stream != (void*)7) return 400;
    if (bytes > (1ull << 40)) return 2;
    *address = (unsigned long long)aligned_alloc(256, (bytes + 255) / 256 * 256);
    blocks++;
    return 0;
}
int cuMemFreeAsync(unsigned long long address, void* stream) {
    if (!contexts || stream != (void*)7) return 400;
    free((void*)address);
    blocks--;
    return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long address, const void* host, size_t bytes, void* stream) {
    if (!contexts || stream != (void*)7) return 400;
    memcpy((void*)address, host, bytes);
    uploads++;
    return 0;
}
int cuLaunchKernel(const Function* f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void* stream, void** params, void** extra) {
    if (!contexts || stream != (void*)7 || ty != 1 || tz != 1 || shared || extra) return 1;
    launches++;
    const unsigned grid[3] = {x, y, z};
    return !f->start || f->start(f->number, grid, threads, params, f->arguments) == -1 ? 0 : 719;
}
}
