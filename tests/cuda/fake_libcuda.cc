// The functions of libcuda that rust/py/src/device/driver.rs calls. A CUfunction is a kernel of the shim; memory is the
// heap's.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

typedef int (*Start)(int, const unsigned*, unsigned, void**, int);
struct Function {
    Start start;
    int number, arguments;
};
static std::atomic<int> launches{0}, blocks{0}, uploads{0};
static thread_local int contexts = 0;
typedef std::vector<std::function<int()>> Graph;
static std::atomic<Graph*> capturing{nullptr};
static std::atomic<int> graphs{0}, graph_starts{0}, graph_nodes{0};

static bool is_ready(void* stream) { return contexts && stream == (void*)7; }

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
int fake_graphs() { return graphs; }
int fake_graph_starts() { return graph_starts; }
int fake_graph_nodes() { return graph_nodes; }
// Fake libraries give their work to a graph that is being captured; false: there is none.
bool fake_keep(void (*work)(void*), void* data) {
    if (!capturing) return false;
    capturing.load()->push_back([=] { return work(data), 0; });
    return true;
}
int fake_uploads() { return uploads; }

int cuCtxPushCurrent_v2(void* context) { return context == (void*)11 ? (contexts++, 0) : 201; }
int cuCtxPopCurrent_v2(void** context) {
    *context = (void*)11;
    return contexts-- > 0 ? 0 : 201;
}
int cuMemAllocAsync(unsigned long long* address, size_t bytes, void* stream) {
    if (!is_ready(stream)) return 400;
    if (capturing) return 900;
    if (bytes > (1ull << 40)) return 2;
    *address = (unsigned long long)aligned_alloc(256, (bytes + 255) / 256 * 256);
    blocks++;
    return 0;
}
int cuMemFreeAsync(unsigned long long address, void* stream) {
    if (!is_ready(stream)) return 400;
    if (capturing) return 900;
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
    if (!is_ready(stream) || ty != 1 || tz != 1 || shared || extra) return 1;
    std::vector<unsigned long long> held(f->arguments);
    for (int i = 0; i < f->arguments; i++) memcpy(&held[i], params[i], 8);
    auto run = [=]() mutable {
        const unsigned grid[3] = {x, y, z};
        std::vector<void*> values;
        for (auto& v : held) values.push_back(&v);
        return !f->start || f->start(f->number, grid, threads, values.data(), f->arguments) == -1 ? 0 : 719;
    };
    if (capturing) return capturing.load()->push_back(run), 0;
    launches++;
    return run();
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
    if (!is_ready(stream) || capturing) return 1;
    memcpy((void*)to, (void*)from, bytes);
    return 0;
}

int cuStreamBeginCapture_v2(void* stream, unsigned mode) {
    if (!is_ready(stream) || capturing || mode > 2) return 1;
    capturing = new Graph;
    return 0;
}
int cuStreamEndCapture(void* stream, Graph** graph) {
    if (!is_ready(stream) || !capturing) return 1;
    *graph = capturing.exchange(nullptr);
    return 0;
}
int cuGraphInstantiateWithFlags(Graph** instance, Graph* graph, unsigned long long flags) {
    if (!contexts || flags) return 1;
    *instance = new Graph(*graph);
    graphs++;
    return 0;
}
int cuGraphLaunch(Graph* instance, void* stream) {
    if (!is_ready(stream) || capturing) return 1;
    graph_starts++;
    graph_nodes += (int)instance->size();
    for (auto& node : *instance)
        if (int code = node()) return code;
    return 0;
}
int cuGraphDestroy(Graph* graph) { return delete graph, 0; }
int cuGraphExecDestroy(Graph* instance) {
    graphs--;
    return delete instance, 0;
}
}
