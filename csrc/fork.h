// Kernels in a forked process.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <future>

namespace scar_gpu {

// Whether this thread called fork() and is in the child now. OpenMP then takes the threads it has
// started for this one to be alive still, and waits for them forever. Only the parent has them.
bool outlived_its_threads();

// A kernel that runs on a new thread where the calling one would wait forever: a new thread starts
// helpers of its own. Same bits, for the price of starting them at every call.
template <auto KERNEL>
void fork_safe(StableIValue* stack, uint64_t n_arguments, uint64_t n_results) {
  if (!outlived_its_threads()) [[likely]]
    return KERNEL(stack, n_arguments, n_results);
  std::async(std::launch::async, KERNEL, stack, n_arguments, n_results).get();
}

}  // namespace scar_gpu
