// Hashing of ids for open-addressed tables.
#pragma once

#include <cstdint>

namespace scar_gpu {

// Spreads an id over 32 bits. The upper half is folded in first: ids that are multiples of a high
// power of two would otherwise all meet in one place.
inline uint64_t hash_of_id(int64_t id) {
  const uint64_t key = static_cast<uint64_t>(id);
  return (key ^ key >> 32) * 0x9e3779b97f4a7c15u >> 32;
}

}  // namespace scar_gpu
