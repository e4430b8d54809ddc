// How long a model takes to load, and how fast matrices are repacked.
//
//   bench.loading --formats    GB/s of the file at which one thread repacks each format
//   bench.loading -m MODEL     seconds of loading, in turns: with the file in the system's memory
//                              ("hot"), and after the system was asked to drop it ("cold")
//   ... --packed FILE          the same from a packed file, which is made, and plain decoding from
//                              packed and from mapped weights

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "../support/program.hpp"
#include "../support/random_weights.hpp"
#include "../support/summary.hpp"
#include "model_path.hpp"
#include "passes.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;

/// Ask the system to read the file anew next time: what is mapped or changed it keeps, and below it
/// a disk or a host may have a memory of its own.
void drop_from_memory(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)::fdatasync(file);
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

/// Every format as a matrix that fits no cache, into memory that is there already: repacking and
/// nothing else.
Json formats(int repetitions) {
  using fd::TensorType;
  constexpr std::size_t kRows = 8960;
  constexpr std::size_t kColumns = 1536;
  Json result;
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ4_0, TensorType::kQ4_1,
        TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0, TensorType::kQ4_K,
        TensorType::kQ5_K, TensorType::kQ6_K}) {
    const auto rows = bench::random_rows(type, kRows, kColumns);
    auto matrix = fd::cpu::PackedMatrix::allocate(type, kRows, kColumns);
    std::vector<double> rates;
    for (int i = 0; i <= repetitions; ++i) {
      const auto begin = bench::Clock::now();
      matrix.pack_panels({type, kRows, kColumns, rows}, 0, matrix.n_panels());
      const double seconds = bench::seconds_since(begin);
      if (i > 0) rates.push_back(static_cast<double>(rows.size()) / seconds / 1e9);
    }
    result[std::string(fd::layout_of(type)->name)] = bench::summary(rates);
  }
  return {{"repack_GB_per_s_1_thread", result}};
}

/// Seconds of one kind of loading, and of its parts.
struct Times {
  std::vector<double> all;
  std::vector<double> tokenizer;
  std::vector<double> weights;

  Json json(double bytes, int threads) const {
    std::vector<double> rates;
    for (const double seconds : weights) rates.push_back(bytes / seconds / threads / 1e9);
    return {{"seconds", bench::summary(all)},
            {"seconds_tokenizer", bench::summary(tokenizer)},
            {"seconds_weights", bench::summary(weights)},
            {"GB_per_s_a_core", bench::summary(rates)}};
  }
};

/// The parts first, then all of it as users have it. Giving memory back is no part of loading.
void measure(fd::Cpu& cpu, const std::filesystem::path& path, const fd::LoadOptions& options,
             bool cold, Times& times) {
  // What a cold start has done to the system's memory must not be paid for by the first hot one.
  if (!cold) (void)fd::load(cpu, path, options);
  const auto timed = [&](std::vector<double>& seconds, auto&& work) {
    if (cold) {
      drop_from_memory(path);
      for (const auto& place : options.packed_files) drop_from_memory(place);
    }
    const auto begin = bench::Clock::now();
    const auto kept = work();
    seconds.push_back(bench::seconds_since(begin));
  };
  timed(times.tokenizer, [&] { return fd::Tokenizer::from(fd::Gguf::open(path)); });
  timed(times.weights, [&] {
    const fd::Gguf file = fd::Gguf::open(path);
    fd::ModelConfig config = fd::read_config(file);
    config.n_vocab = static_cast<int>(file.find("tokenizer.ggml.tokens")->count);
    return options.packed_files.empty() ? fd::read_weights(cpu, file, config, options)
                                        : fd::read_weights_packed(cpu, file, config, options);
  });
  timed(times.all, [&] { return fd::load(cpu, path, options); });
}

/// Plain decoding from weights in memory of our own and from mapped ones, in turns.
Json decoding(fd::Cpu& cpu, const std::filesystem::path& path, const fd::LoadOptions& mapping,
              int repetitions) {
  constexpr int kTokens = 32;
  bench::Model packed = fd::load(cpu, path);
  bench::Model mapped = fd::load(cpu, path, mapping);
  bench::Passes from_packed(packed, kTokens);
  bench::Passes from_mapped(mapped, kTokens);
  std::vector<double> own;
  std::vector<double> file;
  for (int i = 0; i <= repetitions; ++i) {
    const double a = kTokens / from_packed.decoding(kTokens);
    const double b = kTokens / from_mapped.decoding(kTokens);
    if (i == 0) continue;
    own.push_back(a);
    file.push_back(b);
  }
  return {{"packed", bench::summary(own)},
          {"mapped", bench::summary(file)},
          {"mapped_of_packed", bench::summary(bench::ratios(file, own))}};
}

Json loading(const std::string& name, const std::string& packed, int threads, int repetitions) {
  const std::filesystem::path path = cli::find_model(name);
  fd::Cpu cpu{{.threads = threads}};
  double bytes = 0;  // of all tensors
  {
    const fd::Gguf file = fd::Gguf::open(path);
    for (const auto& tensor : file.tensors()) bytes += static_cast<double>(tensor.data.size());
  }
  fd::LoadOptions mapping;
  bool written = false;
  mapping.note = [&](const std::string&) { written = true; };
  (void)fd::load(cpu, path);
  double first = 0;
  if (!packed.empty()) {
    mapping.packed_files = {packed};
    const auto begin = bench::Clock::now();
    (void)fd::load(cpu, path, mapping);
    first = bench::seconds_since(begin);
    written = false;
  }
  Times times[4];
  for (int i = 0; i < repetitions; ++i) {
    measure(cpu, path, {}, true, times[0]);
    measure(cpu, path, {}, false, times[1]);
    if (packed.empty()) continue;
    measure(cpu, path, mapping, true, times[2]);
    measure(cpu, path, mapping, false, times[3]);
  }
  Json result{{"model", path.stem().string()},
              {"isa", fd::cpu::name_of(cpu.isa())},
              {"threads", cpu.threads()},
              {"file_bytes", std::filesystem::file_size(path)},
              {"tensor_bytes", bytes},
              {"cold", times[0].json(bytes, cpu.threads())},
              {"hot", times[1].json(bytes, cpu.threads())}};
  if (packed.empty()) return result;
  result["packed_bytes"] = std::filesystem::file_size(packed);
  result["seconds_first_with_writing"] = first;
  result["packed_cold"] = times[2].json(bytes, cpu.threads());
  result["packed_hot"] = times[3].json(bytes, cpu.threads());
  result["decoding_tokens_per_s"] = decoding(cpu, path, mapping, repetitions);
  if (written) {
    throw fd::Error(fd::ErrorCode::kIo, "a packed file that was refused or written again",
                    "one that is mapped at every start");
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model;
  std::string packed;
  int threads = 0;
  int repetitions = 7;
  bool only_formats = false;
  CLI::App app("How long a model takes to load, and how fast matrices are repacked.");
  auto* chosen = app.add_option("-m,--model", model, "a file, or a name");
  app.add_option("--packed", packed, "also load from a packed file, made here")->needs(chosen);
  app.add_flag("--formats", only_formats, "repacking of each format on one thread")
      ->excludes(chosen);
  app.add_option("-t,--threads", threads, "0: as many as the machine grants");
  app.add_option("-r,--repetitions", repetitions)->check(CLI::Range(1, 1000));
  return bench::run_program(app, argc, argv, [&] {
    if (model.empty() && !only_formats) {
      throw fd::Error(fd::ErrorCode::kInvalidOption, "nothing to measure", "-m or --formats");
    }
    const Json result =
        only_formats ? formats(repetitions) : loading(model, packed, threads, repetitions);
    std::cout << result.dump(1) << '\n';
    return 0;
  });
}
