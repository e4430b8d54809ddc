#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <foredraft/core/index.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/config_reader.hpp>
#include <foredraft/model/family/llama.hpp>
#include <foredraft/model/layer_weights.hpp>
#include <foredraft/model/recurrent_weights.hpp>

namespace foredraft::inline v0::family {

/// Mamba 2: every layer is a selective scan and nothing else, so a sequence needs no keys and values
/// and a token costs the same however long the text is.
/// @source Dao and Gu 2024, arXiv:2405.21060
struct Mamba2 {
  static constexpr std::string_view kName = "mamba2";

  static ModelConfig config(const ConfigReader& reader) {
    ModelConfig config;
    const Dim n_layers = reader.dimension("block_count", {}, kMostLayers);
    config.n_ctx = reader.dimension("context_length");
    config.d_model = reader.dimension("embedding_length");
    config.norm_epsilon = reader.epsilon("attention.layer_norm_rms_epsilon", 1e-5);
    refuse_unknown_steps(reader, 1);
    config.layers.assign(idx(n_layers), {.recurrent = scan(reader)});
    return config;
  }

  /// Also of families in which some layers are scans.
  template <typename B, typename Reader>
  static LayerWeights<B> layer(Reader& reader, const ModelConfig& c, int n) {
    const SelectiveScanShape& scan = std::get<SelectiveScanShape>(c.layers[idx(n)].recurrent);
    const std::string layer = "blk." + std::to_string(n) + ".";
    LayerWeights<B> weights;
    weights.norm = reader.vector(layer + "attn_norm.weight", c.d_model);
    SelectiveScanWeights<B> mixer{
        .in = reader.matrix(layer + "ssm_in.weight", scan.d_in(), c.d_model),
        .kernel = reader.transposed(layer + "ssm_conv1d.weight", scan.d_conv(), scan.kernel),
        .conv_bias = reader.optional_vector(layer + "ssm_conv1d.bias", scan.d_conv()),
        .dt_bias = reader.vector(layer + "ssm_dt.bias", scan.n_heads),
        .decay = reader.flat(layer + "ssm_a", scan.n_heads, 1),
        .skip = reader.flat(layer + "ssm_d", scan.n_heads, 1),
        .group_norm =
            reader.flat(layer + "ssm_norm.weight", scan.n_groups, scan.width / scan.n_groups),
        .out = reader.matrix(layer + "ssm_out.weight", c.d_model, scan.width)};
    weights.recurrent = std::move(mixer);
    return weights;
  }

  /// Likewise.
  static SelectiveScanShape scan(const ConfigReader& reader) {
    if (reader.flag("ssm.dt_b_c_rms", false)) {
      reader.refuse("ssm.dt_b_c_rms", "true", "time steps, b and c without norms");
    }
    SelectiveScanShape s;
    s.kernel = reader.dimension("ssm.conv_kernel", {}, kMostTaps);
    s.width = reader.dimension("ssm.inner_size");
    s.n_heads = reader.dimension("ssm.time_step_rank");
    s.n_groups = reader.dimension("ssm.group_count", 1);
    s.d_state = reader.dimension("ssm.state_size");
    detail::require(s.width % s.n_heads == 0 && s.n_heads % s.n_groups == 0,
                    std::to_string(s.width) + " channels, " + std::to_string(s.n_heads) +
                        " heads, " + std::to_string(s.n_groups) + " groups",
                    "each a multiple of the next");
    s.d_head = s.width / s.n_heads;
    // What the shape multiplies later must fit a dimension, too.
    const Dim all_b = reader.all_heads(s.n_groups, s.d_state);
    reader.all_heads(s.d_head, s.d_state);
    reader.all_heads(7, std::max({int{s.width}, int{all_b}, int{s.n_heads}}));
    return s;
  }
};

}  // namespace foredraft::inline v0::family
