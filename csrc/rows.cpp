// The choice of an instruction set at run time.

#include "rows.h"

#include <atomic>
#include <vector>

namespace scar_gpu {

namespace {

std::vector<const InstructionSet*> runnable() {
  std::vector<const InstructionSet*> sets;
  for (const InstructionSet* set : {
#if defined(__x86_64__)
           &avx512, &avx2,
#elif defined(__aarch64__)
           &neon,
#endif
           &scalar})
    if (set->available()) sets.push_back(set);
  return sets;
}

std::atomic<const InstructionSet*> in_use = nullptr;

}  // namespace

std::span<const InstructionSet* const> instruction_sets() {
  static const std::vector<const InstructionSet*> sets = runnable();
  return sets;
}

const InstructionSet& instruction_set() {
  const InstructionSet* set = in_use.load(std::memory_order_relaxed);
  if (set == nullptr) {
    set = instruction_sets().front();
    in_use.store(set, std::memory_order_relaxed);
  }
  return *set;
}

void use_instruction_set(const InstructionSet& chosen) {
  in_use.store(&chosen, std::memory_order_relaxed);
}

}  // namespace scar_gpu
