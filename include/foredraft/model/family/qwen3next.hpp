#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/qwen35.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/recurrent_weights.hpp>

namespace foredraft::inline v0::family {

/// Qwen 3 Next: Qwen 3.5 with a mixture of experts, where a key serves heads that are neighbours, and
/// where matrices lie in one tensor by key heads.
/// @source the model code of transformers
struct Qwen3Next : Qwen35Moe {
  static constexpr std::string_view kName = "qwen3next";

  static ModelConfig config(const ConfigReader& reader) { return mixture(reader, false); }

  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    LayerWeights<B> weights = Qwen35Moe::layer<B>(reader, c, n);
    if (auto* delta_net = std::get_if<GatedDeltaNetWeights<B>>(&weights.recurrent)) {
      take_apart<B>(reader, c, n, *delta_net);
    }
    return weights;
  }

 private:
  /// For each key head the rows of beta, then those of alpha; in older files also those of its query,
  /// its key, and the values and gates of its heads.
  template <typename B, typename Reader>
  static void take_apart(Reader& reader, const ModelConfig& c, int n, GatedDeltaNetWeights<B>& to) {
    const auto& s = std::get<GatedDeltaNetShape>(c.layers[idx(n)].recurrent);
    const int n_runs = s.n_key_heads;
    const int heads = s.n_heads / s.n_key_heads;
    const std::string both = prefix(n) + "ssm_ba.weight";
    const Dim n_both = ConfigReader::all_heads(2, s.n_heads);
    const auto of_heads = [&](int first) { return rows_of_runs(n_runs, 2 * heads, first, heads); };
    to.beta = reader.picked(both, n_both, c.d_model, of_heads(0), false);
    to.alpha = reader.picked(both, n_both, c.d_model, of_heads(heads), true);
    const std::string all = prefix(n) + "ssm_in.weight";
    if (!reader.has(all)) return;
    const int d_key = s.d_key;
    const int values = heads * int{s.d_value};
    const int length = 2 * d_key + 2 * values;
    const Dim n_all = ConfigReader::all_heads(s.n_key_heads, length);
    std::vector<int> qkv;
    for (const auto& [first, count] : {std::pair(0, d_key), {d_key, d_key}, {2 * d_key, values}}) {
      const std::vector<int> rows = rows_of_runs(n_runs, length, first, count);
      qkv.insert(qkv.end(), rows.begin(), rows.end());
    }
    to.qkv = reader.picked(all, n_all, c.d_model, qkv, false);
    to.gate = reader.picked(all, n_all, c.d_model,
                            rows_of_runs(n_runs, length, 2 * d_key + values, values), true);
  }
};

}  // namespace foredraft::inline v0::family
