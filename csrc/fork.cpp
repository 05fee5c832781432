// Which thread a fork has left alone.

#include "fork.h"

#include <pthread.h>
#include <torch/csrc/stable/ops.h>

namespace scar_gpu {
namespace {

thread_local bool has_forked = false;

// In a child this runs on its only thread; every later one has a `has_forked` of its own.
[[maybe_unused]] const int REGISTERED = pthread_atfork(nullptr, nullptr, [] { has_forked = true; });

}  // namespace

bool outlived_its_threads() {
  // Alone by request (as in a DataLoader's workers), it waits for nobody.
  return has_forked && torch::stable::get_num_threads() > 1;
}

}  // namespace scar_gpu
