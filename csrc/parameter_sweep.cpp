// The size and the worth of every query's expansion at every point of a grid of lam and gamma.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "contributions.h"
#include "operations.h"

namespace scar_gpu {

namespace {

constexpr float INF = std::numeric_limits<float>::infinity();
// Queries that are worth a second thread.
constexpr int64_t QUERIES_PER_THREAD = 4;

struct Inputs {
  Ids hits;
  View<float, 2> relevance;
  View<float, 3> neighbor_relevance, continuity;
  View<int64_t, 3> ranges;
  View<double, 3> weights;
  std::vector<float> lam, gamma;
  bool contiguous;

  int64_t n_queries() const { return hits.size(0); }
  int64_t n_hits() const { return hits.size(1); }
  int64_t n_neighbors() const { return continuity.size(2); }
  int64_t n_pieces() const { return ranges.size(1); }
  int64_t n_measures() const { return weights.size(2); }
  int64_t n_lam() const { return static_cast<int64_t>(lam.size()); }
  int64_t n_gamma() const { return static_cast<int64_t>(gamma.size()); }
  bool is_hit(int64_t b, int64_t k) const { return hits(b, k) >= 0 && relevance(b, k) != -INF; }
  int64_t row(int64_t b, int64_t k, int64_t j) const {
    const int64_t window = n_neighbors() / 2;
    return hits(b, k) + j - window + (j >= window);
  }
};

// One thread's working memory for one query. A byte says whether a row is in the expansion at one
// gamma; the rows of hits are in it everywhere.
class Sweeper {
 public:
  explicit Sweeper(const Inputs& in)
      : in_(in),
        thresholds_(in.n_hits() * in.n_gamma()),
        admitted_(in.n_gamma()),
        covers_(in.n_gamma()),
        sums_(in.n_measures() * in.n_gamma()) {}

  void run(int64_t b, int32_t* chunks, float* covered) {
    list_rows(b);
    list_pieces(b);
    for (int64_t k = 0; k < in_.n_hits(); ++k)
      for (int64_t g = 0; g < in_.n_gamma(); ++g)
        thresholds_[k * in_.n_gamma() + g] = in_.gamma[g] * in_.relevance(b, k);
    for (int64_t l = 0; l < in_.n_lam(); ++l) {
      judge(b, in_.lam[l]);
      count(chunks + l * in_.n_gamma());
      sum(b, covered + l * in_.n_gamma());
    }
  }

 private:
  struct Neighbor {
    int64_t hit, j, row;  // `row` is a position in `rows_`
    bool follows;         // in a contiguous expansion, only after the neighbour judged before it
  };
  struct Piece {
    int64_t piece, begin, end;  // positions in `rows_`
  };

  int64_t position(int64_t row) const {
    return std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin();
  }

  // The rows that may be in the expansion, ascending, and the neighbours, outwards from each hit.
  void list_rows(int64_t b) {
    const int64_t window = in_.n_neighbors() / 2;
    rows_.clear();
    neighbors_.clear();
    for (int64_t k = 0; k < in_.n_hits(); ++k) {
      if (!in_.is_hit(b, k)) continue;
      rows_.push_back(in_.hits(b, k));
      for (int64_t side = 0; side < 2; ++side)
        for (int64_t distance = 1; distance <= window; ++distance) {
          const int64_t j = side ? window + distance - 1 : window - distance;
          const int64_t row = in_.row(b, k, j);
          if (row < 0 || std::isnan(in_.continuity(b, k, j))) {
            if (in_.contiguous) break;
            continue;
          }
          rows_.push_back(row);
          neighbors_.push_back({k, j, row, distance > 1 && in_.contiguous});
        }
    }
    std::sort(rows_.begin(), rows_.end());
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    is_in_.resize(rows_.size() * in_.n_gamma());
    is_hit_.assign(rows_.size(), false);
    for (Neighbor& neighbor : neighbors_) neighbor.row = position(neighbor.row);
    for (int64_t k = 0; k < in_.n_hits(); ++k)
      if (in_.is_hit(b, k)) is_hit_[position(in_.hits(b, k))] = true;
  }

  void list_pieces(int64_t b) {
    pieces_.clear();
    for (int64_t p = 0; p < in_.n_pieces(); ++p) {
      const int64_t begin = position(in_.ranges(b, p, 0)), end = position(in_.ranges(b, p, 1));
      if (begin < end) pieces_.push_back({p, begin, end});
    }
  }

  // S = cos(q, n) - lam * (1 - cos(c, n)) against gamma * cos(q, c), in the arithmetic of
  // `neighbor_scores`.
  void judge(int64_t b, float lam) {
    const int64_t n_gamma = in_.n_gamma();
    for (size_t r = 0; r < rows_.size(); ++r)
      std::fill_n(is_in_.begin() + r * n_gamma, n_gamma, is_hit_[r]);
    uint8_t* admitted = admitted_.data();
    for (const Neighbor& neighbor : neighbors_) {
      const auto [k, j, row, follows] = neighbor;
      const float score = in_.neighbor_relevance(b, k, j) - lam * (1.0f - in_.continuity(b, k, j));
      const float* thresholds = thresholds_.data() + k * n_gamma;
      for (int64_t g = 0; g < n_gamma; ++g) {
        const uint8_t exceeds = score > thresholds[g];
        admitted[g] = follows ? admitted[g] & exceeds : exceeds;
      }
      uint8_t* is_in = is_in_.data() + row * n_gamma;
      for (int64_t g = 0; g < n_gamma; ++g) is_in[g] |= admitted[g];
    }
  }

  void count(int32_t* chunks) const {
    const int64_t n_gamma = in_.n_gamma();
    std::fill_n(chunks, n_gamma, 0);
    for (size_t r = 0; r < rows_.size(); ++r)
      for (int64_t g = 0; g < n_gamma; ++g) chunks[g] += is_in_[r * n_gamma + g];
  }

  // The sums of measure m lie L * G further on than those of m - 1.
  void sum(int64_t b, float* covered) {
    const int64_t n_gamma = in_.n_gamma();
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (const auto& [piece, begin, end] : pieces_) {
      std::copy_n(is_in_.begin() + begin * n_gamma, n_gamma, covers_.begin());
      for (int64_t r = begin + 1; r < end; ++r)
        for (int64_t g = 0; g < n_gamma; ++g) covers_[g] |= is_in_[r * n_gamma + g];
      for (int64_t m = 0; m < in_.n_measures(); ++m) {
        const double weight = in_.weights(b, piece, m);
        double* sums = sums_.data() + m * n_gamma;
        if (weight != 0)
          for (int64_t g = 0; g < n_gamma; ++g) sums[g] += covers_[g] ? weight : 0.0;
      }
    }
    for (int64_t m = 0; m < in_.n_measures(); ++m)
      for (int64_t g = 0; g < n_gamma; ++g)
        covered[m * in_.n_lam() * n_gamma + g] = static_cast<float>(sums_[m * n_gamma + g]);
  }

  const Inputs& in_;
  std::vector<float> thresholds_;
  std::vector<uint8_t> admitted_, covers_;
  std::vector<double> sums_;
  std::vector<int64_t> rows_;
  std::vector<uint8_t> is_in_, is_hit_;
  std::vector<Neighbor> neighbors_;
  std::vector<Piece> pieces_;
};

std::vector<float> as_floats(const char* name, const std::vector<double>& values) {
  check(!values.empty(), name, " must have at least one value, got none");
  std::vector<float> floats;
  for (const double value : values) floats.push_back(finite_float(name, value));
  return floats;
}

}  // namespace

std::tuple<Tensor, Tensor> parameter_sweep(const Tensor& hits, const Tensor& relevance,
                                           const Tensor& neighbor_relevance,
                                           const Tensor& continuity, const Tensor& gold_ranges,
                                           const Tensor& gold_weights, std::vector<double> lam,
                                           std::vector<double> gamma, bool contiguous) {
  const Inputs in{Ids(hits, "hits"),
                  View<float, 2>(relevance, "relevance"),
                  View<float, 3>(neighbor_relevance, "neighbor_relevance"),
                  View<float, 3>(continuity, "continuity"),
                  View<int64_t, 3>(gold_ranges, "gold_ranges"),
                  View<double, 3>(gold_weights, "gold_weights"),
                  as_floats("lam", lam),
                  as_floats("gamma", gamma),
                  contiguous};
  const int64_t n_queries = in.n_queries(), k = in.n_hits();
  check(in.relevance.size(0) == n_queries && in.relevance.size(1) == k,
        "relevance must have the shape of hits");
  for (const auto* view : {&in.neighbor_relevance, &in.continuity})
    check(view->size(0) == n_queries && view->size(1) == k && view->size(2) == in.n_neighbors() &&
              view->size(2) % 2 == 0,
          "neighbor_relevance and continuity must be [B, K, 2W] for hits of [B, K]");
  check(in.ranges.size(0) == n_queries && in.ranges.size(2) == 2, "gold_ranges must be [B, P, 2]");
  check(in.weights.size(0) == n_queries && in.weights.size(1) == in.n_pieces(),
        "gold_weights must be [B, P, M] for gold_ranges of [B, P, 2]");
  check(*std::min_element(lam.begin(), lam.end()) >= 0, "lam must be >= 0");
  in.hits.check_range((int64_t{1} << 62) + 1);  // the largest id, whose neighbours are numbers

  const int64_t grid = in.n_lam() * in.n_gamma();
  const Tensor chunks = allocate({n_queries, in.n_lam(), in.n_gamma()}, ScalarType::Int);
  const Tensor covered =
      allocate({n_queries, in.n_measures(), in.n_lam(), in.n_gamma()}, ScalarType::Float);
  parallel_for(n_queries, QUERIES_PER_THREAD, [&](int64_t begin, int64_t end) {
    Sweeper sweeper(in);
    for (int64_t b = begin; b < end; ++b)
      sweeper.run(b, data<int32_t>(chunks) + b * grid,
                  data<float>(covered) + b * in.n_measures() * grid);
  });
  return {chunks, covered};
}

}  // namespace scar_gpu
