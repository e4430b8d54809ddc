// Fuzzing files of what was learned: a controller's state, counts of n-grams, and the tables of the
// other drafters. Most inputs are payloads, which get the frame that they would need to be believed;
// the others are whole files.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/control/controller.hpp>
#include <foredraft/drafter/lookahead_pool.hpp>
#include <foredraft/drafter/ngram_counts.hpp>
#include <foredraft/drafter/ngram_mod_table.hpp>
#include <foredraft/drafter/suffix_cache.hpp>
#include <foredraft/drafter/token_recycling.hpp>

#include "fuzz/choices.hpp"
#include "fuzz/demand.hpp"
#include "fuzz/fuzz_main.hpp"

namespace fd = foredraft;

namespace {

constexpr fd::VocabularyFingerprint kVocabulary{.n_vocab = 40, .used = 38, .pieces = 7};
constexpr fd::TableKind kKinds[] = {fd::TableKind::kController,     fd::TableKind::kNgramCounts,
                                    fd::TableKind::kNgramMod,       fd::TableKind::kSuffixTree,
                                    fd::TableKind::kTokenRecycling, fd::TableKind::kLookahead};

/// Whatever numbers it has learned, all that a controller computes with them is finite.
void try_controller(std::istream& file) {
  const auto state = fd::ControllerState::load(file, kVocabulary);
  fd::Controller controller;
  controller.watch(state.drafters.size());
  controller.restore(state);
  fd::DraftTree draft;
  draft.reset(1);
  const fd::NodeIndex path[] = {0};
  const fd::TokenId tokens[] = {2};
  const fd::Scores scores;
  // Reading is planned behind some rounds.
  for (int round = 0; round < 5; ++round) {
    controller.learn(fd::Round{draft, path, tokens, scores, 20, {0.001, 0.01}});
  }
  for (const int backlog : {0, 9, 3000}) {
    controller.begin(backlog, {.depth = 63, .nodes = 63}, 100);
    for (const double price : controller.prices()) fuzz::demand(std::isfinite(price), "a price");
    for (std::size_t i = 0; i < state.drafters.size(); ++i) {
      controller.asks(i);
      const auto plan = controller.plan(i, backlog, {.depth = 63, .nodes = 63}, 0.1);
      fuzz::demand(!plan || (std::isfinite(plan->value) && plan->limit.depth <= 63), "a plan");
    }
  }
}

/// What was taken is written again as a file that says the same.
void try_counts(std::istream& file) {
  const auto counts = fd::NgramCounts::load(file, kVocabulary);
  std::stringstream out;
  counts.save(out, kVocabulary);
  const auto again = fd::NgramCounts::load(out, kVocabulary);
  fuzz::demand(again.size() == counts.size(), "as many n-grams");
}

void load(fd::TableKind kind, std::istream& file) {
  switch (kind) {
    case fd::TableKind::kController: return try_controller(file);
    case fd::TableKind::kNgramCounts: return try_counts(file);
    case fd::TableKind::kNgramMod: fd::NgramModTable::load(file, kVocabulary, 4096); return;
    case fd::TableKind::kSuffixTree: fd::SuffixCache().load(file, kVocabulary); return;
    case fd::TableKind::kLookahead: fd::LookaheadPool(64, 3, 2).load(file, kVocabulary); return;
    default: fd::RecyclingMatrix().load(file, kVocabulary); return;
  }
}

fuzz::Bytes seed(std::uint8_t kind, const std::string& file) {
  fuzz::Bytes bytes{std::byte{kind}};
  const auto payload = std::as_bytes(std::span(file)).subspan(fd::table_frame::kSize);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

}  // namespace

bool fuzz::run(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const auto choice = std::to_integer<std::uint8_t>(input[0]);
  const fd::TableKind kind = kKinds[choice % std::size(kKinds)];
  const std::span<const std::byte> rest = input.subspan(1);
  std::stringstream file;
  if (choice >= 250) {
    file.write(reinterpret_cast<const char*>(rest.data()),
               static_cast<std::streamsize>(rest.size()));
  } else {
    fd::write_table(file, {kind, kVocabulary, {rest.begin(), rest.end()}});
  }
  try {
    load(kind, file);
  } catch (const fd::Error&) {
    return false;
  }
  return true;
}

std::vector<fuzz::Bytes> fuzz::seeds() {
  std::vector<Bytes> all;
  const auto add = [&](const auto& table) {
    std::ostringstream out;
    table.save(out, kVocabulary);
    all.push_back(seed(static_cast<std::uint8_t>(all.size()), out.str()));
  };
  std::vector<fd::TokenId> text;
  for (int i = 0; i < 60; ++i) text.push_back((i * i) % 17);

  fd::Controller controller;
  controller.watch(2);
  fd::ControllerState state = controller.state();
  state.drafters[0].name = "lookup";
  state.drafters[1].name = "draft";
  add(state);
  fd::NgramCounts counts(256);
  counts.learn(text, 0);
  add(counts);
  fd::NgramModTable mod(4, 256);
  add(mod);
  fd::SuffixCache outputs;
  add(outputs);
  fd::RecyclingMatrix matrix;
  matrix.reset(40);
  add(matrix);
  fd::LookaheadPool pool(64, 3, 2);
  for (std::size_t i = 0; i + 3 <= text.size(); ++i) {
    pool.insert(text[i], std::span(text).subspan(i + 1, 2));
  }
  add(pool);
  return all;
}
