// For fake libraries whose work may be captured by tests/cuda/fake_libcuda.cc.
#pragma once

// Set by tests/cuda/shim.py: keeps work for a graph that is being captured; false: there is none.
extern "C" bool (*fake_keeper)(void (*)(void*), void*);
bool (*fake_keeper)(void (*)(void*), void*) = nullptr;

// Does the work now, or gives it to the graph, which keeps it until the process ends.
template <typename F> void run(F work) {
    F* held = new F(work);
    auto call = [](void* f) { (*(F*)f)(); };
    if (fake_keeper && fake_keeper(call, held)) return;
    work();
    delete held;
}
