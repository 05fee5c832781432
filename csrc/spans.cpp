// The maximal runs of rows within one document.

#include <algorithm>
#include <utility>
#include <vector>

#include "operations.h"

namespace scar_gpu {

ExpansionTensors spans(const Tensor& ids, const Tensor& doc_offsets) {
  const Ids rows(ids, "ids");
  const Documents documents(doc_offsets);
  rows.check_range(documents.n_chunks());
  const int64_t n_queries = rows.size(0), width = rows.size(1);
  const Tensor start = allocate({n_queries, width}, ScalarType::Long);
  const Tensor end = allocate({n_queries, width}, ScalarType::Long);
  const Tensor first = allocate({n_queries, width}, ScalarType::Int);
  const Tensor lengths = allocate({n_queries}, ScalarType::Int);

  struct Run {
    int32_t first;
    int64_t start, end;
  };
  int64_t* starts = data<int64_t>(start);
  int64_t* ends = data<int64_t>(end);
  int32_t* firsts = data<int32_t>(first);
  int32_t* counts = data<int32_t>(lengths);
  parallel_for(n_queries, 64, [&](int64_t from, int64_t to) {
    std::vector<std::pair<int64_t, int32_t>> entries;  // (row, position)
    std::vector<Run> runs;
    for (int64_t b = from; b < to; ++b) {
      entries.clear();
      runs.clear();
      for (int64_t t = 0; t < width; ++t)
        if (rows(b, t) >= 0) entries.emplace_back(rows(b, t), static_cast<int32_t>(t));
      std::sort(entries.begin(), entries.end());
      int64_t document_end = 0;
      for (const auto& [row, position] : entries) {
        if (!runs.empty() && row == runs.back().end - 1) continue;  // a repeated row
        if (!runs.empty() && row == runs.back().end && row < document_end) {
          runs.back().first = std::min(runs.back().first, position);
          ++runs.back().end;
        } else {
          runs.push_back({position, row, row + 1});
          document_end = documents.end(documents.of(row));
        }
      }
      std::sort(runs.begin(), runs.end(),
                [](const Run& a, const Run& c) { return a.first < c.first; });
      const int64_t n = static_cast<int64_t>(runs.size());
      counts[b] = static_cast<int32_t>(n);
      for (int64_t t = 0; t < width; ++t) {
        starts[b * width + t] = t < n ? runs[t].start : -1;
        ends[b * width + t] = t < n ? runs[t].end : -1;
        firsts[b * width + t] = t < n ? runs[t].first : -1;
      }
    }
  });
  return {start, end, first, lengths};
}

}  // namespace scar_gpu
