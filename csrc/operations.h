// The operations of the library on CPU tensors, one file each.
#pragma once

#include <tuple>
#include <vector>

#include "tensors.h"

namespace scar_gpu {

using OptionalTensor = std::optional<Tensor>;
using ExpansionTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Tensor row_scale(const Tensor& embeddings);

Tensor continuity(const Tensor& embeddings, const Tensor& doc_offsets, int64_t window,
                  OptionalTensor row_scale);

std::tuple<Tensor, Tensor, Tensor> neighbor_scores(const Tensor& queries, const Tensor& embeddings,
                                                   const Tensor& continuity, const Tensor& hits,
                                                   double lam, double gamma, bool contiguous,
                                                   OptionalTensor row_scale,
                                                   OptionalTensor relevance);

ExpansionTensors expand(const Tensor& hits, const Tensor& relevance, const Tensor& scores,
                        const Tensor& mask, bool document_order);

ExpansionTensors scar_expand(const Tensor& queries, const Tensor& embeddings,
                             const Tensor& continuity, const Tensor& hits, double lam, double gamma,
                             bool contiguous, OptionalTensor row_scale, OptionalTensor relevance,
                             bool document_order);

ExpansionTensors window_expand(const Tensor& hits, const Tensor& doc_offsets, int64_t before,
                               int64_t after, bool document_order);

ExpansionTensors spans(const Tensor& ids, const Tensor& doc_offsets);

std::tuple<Tensor, Tensor> search(const Tensor& queries, const Tensor& embeddings, int64_t k,
                                  OptionalTensor row_scale, OptionalTensor row_ranges,
                                  OptionalTensor min_scores);

// The hits, the judgement of their neighbours, and the expansion.
using SearchExpansionTensors =
    std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

SearchExpansionTensors search_expand(const Tensor& queries, const Tensor& embeddings,
                                     const Tensor& continuity, int64_t k, double lam, double gamma,
                                     bool contiguous, OptionalTensor row_scale,
                                     OptionalTensor row_ranges, OptionalTensor min_scores,
                                     bool document_order);

std::tuple<Tensor, Tensor> corpus_masks(const Tensor& queries, const Tensor& embeddings,
                                        const Tensor& continuity, double lam, double gamma,
                                        bool contiguous, OptionalTensor row_scale,
                                        bool return_relevance);

std::vector<Tensor> rank_fusion(std::vector<Tensor> rankings,
                                std::optional<std::vector<Tensor>> ranks, double k,
                                std::optional<std::vector<double>> weights,
                                OptionalTensor contributions, std::optional<int64_t> top_n,
                                bool sums_duplicates, bool has_details);

std::tuple<Tensor, Tensor> parameter_sweep(const Tensor& hits, const Tensor& relevance,
                                           const Tensor& neighbor_relevance,
                                           const Tensor& continuity, const Tensor& gold_ranges,
                                           const Tensor& gold_weights, std::vector<double> lam,
                                           std::vector<double> gamma, bool contiguous);

}  // namespace scar_gpu
