// Every row within a fixed distance of a hit, each once.

#include "expander.h"
#include "operations.h"

namespace scar_gpu {

ExpansionTensors window_expand(const Tensor& hits, const Tensor& doc_offsets, int64_t before,
                               int64_t after, bool document_order) {
  const Ids ids(hits, "hits");
  const Documents documents(doc_offsets);
  check(before >= 0, "before must be >= 0, got ", before);
  check(after >= 0, "after must be >= 0, got ", after);
  ids.check_range(documents.n_chunks());

  const int64_t n_queries = ids.size(0), k = ids.size(1);
  const ExpansionResult result(n_queries, expansion_width(k, before, after));
  parallel_for(n_queries, 64, [&](int64_t begin, int64_t end) {
    Expander expander(k, before, after);
    for (int64_t b = begin; b < end; ++b) {
      expander.begin();
      for (int64_t hit = 0; hit < k; ++hit) {
        const int64_t row = ids(b, hit);
        if (row < 0) continue;
        const int64_t document = documents.of(row);
        const int64_t low = std::max(documents.begin(document), row - before);
        const int64_t high = std::min(documents.end(document), row + after + 1);
        for (int64_t reached = low; reached < high; ++reached)
          expander.offer(expander.candidate(hit, reached - row), reached, 0, 0);
      }
      expander.finish(document_order, result.row(b));
    }
  });
  return result.tensors();
}

}  // namespace scar_gpu
