// The k best rows of one query.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace scar_gpu {

struct Hit {
  float score;
  int64_t id;
  // The total order of results: score descending, then smaller id.
  bool operator<(const Hit& other) const {
    return score > other.score || (score == other.score && id < other.id);
  }
};

// Keeps the k best hits offered so far, the worst of them on top of a heap.
class Best {
 public:
  explicit Best(int64_t k) : k_(k) {}
  void offer(Hit hit) {
    // NaN is never a result, and -inf stands for none.
    if (!(hit.score > -std::numeric_limits<float>::infinity())) return;
    if (static_cast<int64_t>(heap_.size()) == k_) {
      if (!(hit < heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.back() = hit;
    } else {
      heap_.push_back(hit);
    }
    std::push_heap(heap_.begin(), heap_.end());
  }
  void offer(const Best& others) {
    for (const Hit& hit : others.heap_) offer(hit);
  }
  // A score below this one cannot become a result any more.
  float floor() const {
    return static_cast<int64_t>(heap_.size()) == k_ ? heap_.front().score
                                                    : -std::numeric_limits<float>::infinity();
  }
  // Writes k results, best first, padded, and forgets them.
  void write(int64_t* ids, float* scores) {
    std::sort_heap(heap_.begin(), heap_.end());
    const int64_t n = static_cast<int64_t>(heap_.size());
    for (int64_t i = 0; i < k_; ++i) {
      ids[i] = i < n ? heap_[i].id : -1;
      scores[i] = i < n ? heap_[i].score : -std::numeric_limits<float>::infinity();
    }
    heap_.clear();
  }

 private:
  int64_t k_;
  std::vector<Hit> heap_;
};

}  // namespace scar_gpu
