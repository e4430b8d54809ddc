#include <foredraft/saved_snapshot.hpp>

#include <foredraft/drafter/chain.hpp>
#include <foredraft/drafter/model_drafter.hpp>
#include <foredraft/foredraft.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/toy_target.hpp"

namespace fd = foredraft;

namespace {

using Drafters = fd::Chain<>;
using Toy = fd::Decoder<toy::Target, toy::TokenCache, Drafters, fd::Greedy>;

const std::vector<fd::TokenId> kPrompt{3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4, 1};
const fd::SnapshotOwner kOwner{{.n_vocab = 20}, "a toy, f16", "map, model"};

struct Fixture {
  Toy decoder() {
    return {target, toy::TokenCache(500),
            Drafters{fd::NgramMapK{}, fd::ModelDrafter<toy::Target, toy::TokenCache>(
                                          draft, toy::TokenCache(500), {})},
            fd::Greedy{}};
  }
  std::string file(const fd::SnapshotOwner& owner = kOwner) {
    Toy writer = decoder();
    writer.generate(kPrompt, options);
    std::ostringstream out;
    fd::save_snapshot(out, writer.snapshot(), owner, "a note");
    return out.str();
  }
  fd::LoadedSnapshot<Toy::Snapshot> load(const std::string& bytes,
                                         const fd::SnapshotOwner& owner = kOwner) {
    std::istringstream in(bytes);
    return fd::load_snapshot(in, decoder().snapshot(), owner);
  }
  fd::ErrorCode refusal(const std::string& bytes, const fd::SnapshotOwner& owner = kOwner) {
    try {
      load(bytes, owner);
    } catch (const fd::Error& error) {
      return error.code();
    }
    FAIL("accepted");
    return {};
  }

  toy::Target target{20, 0};
  toy::Target draft{20, 0};
  fd::Options options{.max_tokens = 50, .n_draft = 3};
};

}  // namespace

TEST_CASE("a text goes on in another process as it would have gone on") {
  Fixture f;
  Toy writer = f.decoder();
  const auto first = writer.generate(kPrompt, f.options);
  const auto rest = writer.resume(f.options);
  const auto loaded = f.load(f.file());
  CHECK(loaded.note == "a note");
  CHECK(loaded.drafters);
  Toy reader = f.decoder();
  reader.restore(loaded.snapshot);
  CHECK(reader.tokens().size() == kPrompt.size() + first.tokens.size());
  const int passes = f.target.passes;
  const auto found = reader.resume(f.options);
  CHECK(found.tokens == rest.tokens);
  CHECK(f.target.passes - passes == found.stats.rounds);  // nothing was read again
}

TEST_CASE("the state of drafters comes along") {
  Fixture f;
  const auto loaded = f.load(f.file());
  const auto& drafters = loaded.snapshot.drafter.drafters;
  REQUIRE(drafters.size() == 2);
  REQUIRE(drafters[1].get<fd::ModelDrafter<toy::Target, toy::TokenCache>::Snapshot>() != nullptr);
  Toy reader = f.decoder();
  reader.restore(loaded.snapshot);
  auto* model = reader.drafter().part(1).get<fd::ModelDrafter<toy::Target, toy::TokenCache>>();
  REQUIRE(model != nullptr);
  CHECK(model->cache().size() > static_cast<int>(kPrompt.size()));
}

TEST_CASE("drafters that were others learn again, and the text is the same") {
  Fixture f;
  fd::SnapshotOwner other = kOwner;
  other.drafters = "map, another model";
  const auto loaded = f.load(f.file(), other);
  CHECK_FALSE(loaded.drafters);
  Toy reader = f.decoder();
  reader.generate(std::vector<fd::TokenId>{7, 7, 7}, f.options);
  reader.restore(loaded.snapshot);
  Toy writer = f.decoder();
  writer.generate(kPrompt, f.options);
  CHECK(reader.resume(f.options).tokens == writer.resume(f.options).tokens);
}

TEST_CASE("a damaged file is refused, wherever the damage is") {
  Fixture f;
  const std::string good = f.file();
  for (std::size_t i = 0; i < good.size(); i += i < 300 ? 1 : 97) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    CHECK_THROWS_AS(f.load(bad), fd::Error);
    CHECK(f.refusal(good.substr(0, i)) == fd::ErrorCode::kCorruptFile);
  }
  CHECK(f.refusal(good + "x") == fd::ErrorCode::kCorruptFile);
}

TEST_CASE("what belongs to another model or vocabulary is refused") {
  Fixture f;
  fd::SnapshotOwner other = kOwner;
  other.target = "a toy, q8_0";
  CHECK(f.refusal(f.file(other)) == fd::ErrorCode::kUnsupportedModel);
  other = kOwner;
  other.vocabulary.n_vocab = 21;
  CHECK(f.refusal(f.file(other)) == fd::ErrorCode::kVocabularyMismatch);
}

TEST_CASE("a file that contradicts itself behind a right checksum does no harm") {
  Fixture f;
  Toy writer = f.decoder();
  writer.generate(kPrompt, f.options);
  const auto reload = [&](auto change) {
    auto snapshot = writer.snapshot();
    change(snapshot);
    std::ostringstream out;
    fd::save_snapshot(out, snapshot, kOwner);
    Toy reader = f.decoder();
    reader.restore(f.load(out.str()).snapshot);
    reader.resume(f.options);
  };
  CHECK_NOTHROW(reload([](auto&) {}));
  CHECK_THROWS_AS(reload([](auto& s) { s.tokens.back() = 20; }), fd::Error);
  CHECK_THROWS_AS(reload([](auto& s) { s.tokens.resize(3); }), fd::Error);
  CHECK_THROWS_AS(reload([](auto& s) { s.tokens.clear(); }), fd::Error);
  CHECK_THROWS_AS(reload([](auto& s) { s.tokens.resize(501, 1); }), fd::Error);
  // A draft model that has read more than there is goes back.
  CHECK_NOTHROW(reload([](auto& s) {
    s.tokens.resize(5);
    s.cache.tokens.resize(4);
  }));
}
