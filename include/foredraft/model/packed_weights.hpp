#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <foredraft/backend/backend.hpp>
#include <foredraft/core/checksum.hpp>
#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/tensor.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/io/mapped_file.hpp>
#include <foredraft/model/config.hpp>
#include <foredraft/model/load_options.hpp>
#include <foredraft/model/packed_file.hpp>
#include <foredraft/model/weights.hpp>

namespace foredraft::inline v0 {

/// Where the packed file of a model may lie: beside it, MODEL.packed, or, for folders that only
/// others may write to, in the user's cache, $XDG_CACHE_HOME/foredraft/packed (~/.cache/...), under
/// a name that also tells models of the same name in different folders apart.
inline std::vector<std::filesystem::path> packed_file_places(const std::filesystem::path& model) {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  std::vector<std::filesystem::path> places{model};
  places[0] += ".packed";
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty() && !variable("HOME").empty()) cache = variable("HOME") / ".cache";
  std::error_code error;
  const std::string whole = std::filesystem::absolute(model, error).lexically_normal().string();
  if (!cache.empty() && !error) {
    std::string sum = std::to_string(checksum(std::as_bytes(std::span(whole))));
    places.push_back(cache / "foredraft" / "packed" /
                     (model.filename().string() + "-" + sum + ".packed"));
  }
  return places;
}

namespace detail {

inline std::string quoted_path(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

/// A backend that only notes which matrices a model is made of.
struct MatrixLister {
  struct Matrix {};
  using Vector = std::vector<float>;

  Matrix pack(const TensorView& weights) {
    views.push_back(weights);
    return {};
  }
  Vector vector(const TensorView&) { return {}; }

  std::vector<TensorView> views;
};

/// Checksum of each part, the pieces of all of them shared among the workers.
template <typename B>
std::vector<std::uint64_t> checksums(B& backend,
                                     std::span<const std::span<const std::byte>> parts) {
  std::vector<std::span<const std::byte>> pieces;
  std::vector<std::size_t> ends;  // of each part's pieces
  for (std::span<const std::byte> part : parts) {
    for (; !part.empty(); part = part.subspan(pieces.back().size())) {
      pieces.push_back(part.first(std::min(part.size(), kChecksumPiece)));
    }
    ends.push_back(pieces.size());
  }
  std::vector<std::uint64_t> sums(pieces.size());
  backend.run(PassShape{}, [&](auto& worker) noexcept {
    const auto index = idx(worker.index());
    const auto count = idx(worker.count());
    for (std::size_t i = pieces.size() * index / count; i < pieces.size() * (index + 1) / count;
         ++i) {
      sums[i] = checksum(pieces[i]);
    }
  });
  std::vector<std::uint64_t> result;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    result.push_back(checksum_of_pieces(std::span(sums).subspan(begin, end - begin)));
    begin = end;
  }
  return result;
}

/// Whoever may write a file decides what the model says: themselves, the system, or the model's
/// owner.
inline bool trusted(const FileFacts& packed, const FileFacts& model) {
  return packed.owner == 0 || packed.owner == ::geteuid() || packed.owner == model.owner;
}

/// The matrices of a packed file as they lie there, all of it read and compared once.
/// @return nothing where the file is not the planned one; `reason` then says why, unless there is
///   no file
template <typename B>
std::optional<std::vector<typename B::Matrix>> map_packed_file(B& backend,
                                                               const std::filesystem::path& path,
                                                               const FileFacts& model,
                                                               PackedHead plan,
                                                               std::string& reason) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  std::shared_ptr<MappedFile> file;
  try {
    file = std::make_shared<MappedFile>(MappedFile::open(path));
  } catch (const Error&) {
    reason = "it cannot be read";
    return std::nullopt;
  }
  reason = trusted(file->facts(), model) ? difference(*file, plan) : "it belongs to another user";
  if (!reason.empty()) return std::nullopt;
  std::vector<std::span<const std::byte>> parts;
  for (const PackedEntry& entry : plan.entries) {
    parts.push_back(file->bytes().subspan(entry.offset, entry.bytes));
  }
  const auto sums = checksums(backend, parts);
  std::vector<typename B::Matrix> matrices;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PackedEntry& entry = plan.entries[i];
    if (sums[i] != entry.checksum) {
      reason = "it is damaged";
      return std::nullopt;
    }
    matrices.push_back(B::Matrix::view(static_cast<TensorType>(entry.type), entry.n_out, entry.n_in,
                                       parts[i], file));
  }
  return matrices;
}

}  // namespace detail

/// read_weights() of an unchanged model through a packed file: the matrices come from the first of
/// options.packed_files that holds them, or are packed and written to the first that can be
/// written. options.note is told what is written and why, or why nothing could be.
/// @errors as read_weights(); kInvalidOption where the model is no file
template <typename B>
  requires MappableMatrix<typename B::Matrix>
ModelWeights<B> read_weights_packed(B& backend, const Gguf& file, const ModelConfig& config,
                                    const LoadOptions& options) {
  detail::MatrixLister lister;
  (void)read_weights(lister, file, config);
  PackedHead plan = plan_packed_file<typename B::Matrix>(file, lister.views);
  const FileFacts& facts = *file.file_facts();

  std::string reason;
  for (const std::filesystem::path& place : options.packed_files) {
    std::string refusal;
    auto matrices = detail::map_packed_file(backend, place, facts, plan, refusal);
    if (matrices) {
      auto next = matrices->begin();
      return read_weights<B>(backend, file, config, options, {},
                             [&](const TensorView&) { return std::move(*next++); });
    }
    if (!refusal.empty() && reason.empty()) {
      reason = ", because of " + detail::quoted_path(place) + ": " + refusal;
    }
  }

  std::vector<std::span<const std::byte>> parts;  // they stay where they are when matrices move
  ModelWeights<B> weights =
      read_weights<B>(backend, file, config, options, {}, [&](const TensorView& view) {
        typename B::Matrix matrix = backend.pack(view);
        parts.push_back(matrix.packed());
        return matrix;
      });
  const auto sums = detail::checksums(backend, parts);
  for (std::size_t i = 0; i < sums.size(); ++i) plan.entries[i].checksum = sums[i];
  std::string result = "nowhere to write packed weights to";
  for (const std::filesystem::path& place : options.packed_files) {
    try {
      if (place != options.packed_files.front()) {
        std::filesystem::create_directories(place.parent_path());
      }
      write_packed_file(place, plan, parts, facts.mode & 0644);
      result = "packed weights written to " + detail::quoted_path(place);
      break;
    } catch (const std::system_error& error) {
      result = "packed weights cannot be written to " + detail::quoted_path(place) + ": " +
               error.code().message();
    }
  }
  if (options.note) options.note(result + reason);
  return weights;
}

}  // namespace foredraft::inline v0
