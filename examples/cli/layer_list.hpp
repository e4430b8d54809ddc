#pragma once

#include <string>
#include <vector>

namespace cli {

/// Layers of a model, as --spec-layers names them: a number of them, evenly spread over the model,
/// or ranges and single layers with commas between, ascending.
class LayerList {
 public:
  LayerList() = default;
  /// "20", "0-7,20-27" or "0,1,27". @errors UsageError
  static LayerList parse(const std::string& text);

  bool empty() const noexcept { return ranges_.empty() && count_ == 0; }
  /// Where nothing was named: all but a quarter.
  /// @errors kInvalidOption for more layers than the model has
  std::vector<int> of(int n_layers) const;
  /// As it was given.
  const std::string& text() const noexcept { return text_; }

 private:
  struct Range {
    int first;
    int last;
  };
  std::string text_;
  int count_ = 0;
  std::vector<Range> ranges_;
};

}  // namespace cli
