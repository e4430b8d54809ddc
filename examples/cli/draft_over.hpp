#pragma once

#include <utility>
#include <vector>

#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/drafter/model_heterogeneous.hpp>
#include <foredraft/drafter/model_tree_drafter.hpp>
#include <foredraft/io/tokenizer_codec.hpp>

#include "draft.hpp"

namespace cli {

/// Drafts of a model whose tokens are not the target's. @errors UsageError
template <typename M, typename C>
TreeDrafter translating_drafter_over(M& model, C cache, Models& models, const Method& method) {
  if (!method.tree.empty()) {
    throw UsageError("--spec-tree with a draft model of another tokenizer, which drafts chains",
                     "a draft model with the target's tokenizer", "leave --spec-tree out");
  }
  return fd::HeterogeneousDrafter<M, C>{
      model,
      std::move(cache),
      fd::codec_of(models.target.tokenizer()),
      fd::codec_of(model.tokenizer()),
      {.translation = method.translation, .law = method.draft_law}};
}

/// What a model on some backend drafts.
/// @tparam M  the model
/// @tparam C  its cache
/// @errors UsageError
template <typename M, typename C>
TreeDrafter draft_over(M& model, C cache, Models& models, const Method& method) {
  if (!models.same_vocabulary()) {
    return translating_drafter_over(model, std::move(cache), models, method);
  }
  if (method.translation != fd::Translation::kAuto) {
    throw UsageError("--draft-translation with a draft model of the target's tokenizer",
                     "drafts to translate", "leave it out");
  }
  if (drafts_best_first(models, method)) {  // and chains, where its tokens are drawn
    return fd::ModelTreeDrafter<M, C>{
        model,
        std::move(cache),
        {.branching = std::vector<int>(fd::DraftTree::kMaxNodes - 1, 1),
         .law = method.draft_law,
         .best_first = fd::BestFirstSettings()}};
  }
  if (method.tree.empty()) {
    return fd::ModelDrafter<M, C>{model, std::move(cache), {.law = method.draft_law}};
  }
  return fd::ModelTreeDrafter<M, C>{
      model, std::move(cache), {.branching = method.tree, .law = method.draft_law}};
}

}  // namespace cli
