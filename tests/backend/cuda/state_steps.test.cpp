#include <foredraft/backend/cuda/state_steps.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <foredraft/backend/cuda/states.hpp>

#include "backend/cuda/on_device.hpp"
#include "backend/mini_model.hpp"
#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

float storage[2];  // that nobody looks into: who it belongs to is its address

template <typename L>
L layer_of(int which, int kept = 0) {
  L layer;
  layer.inputs = storage + which;
  layer.kept = kept;
  return layer;
}

/// "row<from" of each step, with ">slot" where the state is kept and "=row" where it is read out;
/// walks are apart by a bar. `from` is 0 for zeros, - for what stays, else s and the slot.
std::string text_of(const StateSteps& steps) {
  std::string text;
  for (const StateWalk& walk : steps.walks) {
    if (!text.empty()) text += "| ";
    for (int i = walk.first; i < walk.first + walk.n; ++i) {
      const StateStep& step = steps.steps[fd::idx(i)];
      text += std::to_string(step.row) + "<";
      text += step.from == StateStep::kStays   ? "-"
              : step.from == StateStep::kZeros ? "0"
                                               : "s" + std::to_string(step.from);
      if (step.slot >= 0) text += ">" + std::to_string(step.slot);
      if (step.to >= 0) text += "=" + std::to_string(step.to);
      text += " ";
    }
  }
  return text;
}

template <typename L>
std::string text_of(const std::vector<fd::SequenceRows>& rows,
                    const std::vector<fd::StateRows>& states, const std::vector<L>& kept) {
  return text_of(StateSteps(std::span(rows), std::span(states), std::span<const L>(kept)));
}

fd::SequenceRows chain(int first_row, int n, int first_node, int size) {
  return {first_row, n, first_node, size, {}, {}};
}

// Two roots; 2 and 3 hang below 0, 4 below 3. Storage rows are 1 .. 5.
const std::vector<fd::NodeIndex> kPath{0, 1, 0, 2, 0, 3, 0, 3, 4};
const std::vector<std::int32_t> kBegin{0, 1, 2, 4, 6, 9};
const std::vector<std::int32_t> kStaged{1, 2, 3, 4, 5};
const std::vector<std::int32_t> kCommitted{8, 9};

}  // namespace

TEST_CASE("with slots, a row takes the state of its parent, and keeps its own") {
  using L = SlotsLayer;
  CHECK(text_of<L>({chain(0, 2, 0, 0)}, {{{}, kStaged, 0, true}}, {layer_of<L>(0)}) ==
        "1<0>1=0 2<->2=1 ");
  CHECK(text_of<L>({{3, 5, 0, 2, kPath, kBegin}}, {{kCommitted, kStaged, 0, false}},
                   {layer_of<L>(0)}) == "1<s9>1=3 2<s9>2=4 3<s1>3=5 4<s1>4=6 5<->5=7 ");
}

TEST_CASE("with replay, the state takes in what it lacks into its other slot") {
  using L = ReplayLayer;
  const L kept = layer_of<L>(0, 1);
  CHECK(text_of<L>({chain(0, 2, 0, 2)}, {{kCommitted, kStaged, 2, true}}, {kept}) ==
        "8<0 9<->0 1<-=0 2<-=1 ");
  CHECK(text_of<L>({chain(0, 2, 0, 2)}, {{kCommitted, kStaged, 1, false}}, {kept}) ==
        "9<s1>0 1<-=0 2<-=1 ");
  CHECK(text_of<L>({chain(0, 2, 0, 2)}, {{kCommitted, kStaged, 0, false}}, {kept}) ==
        "1<s1=0 2<-=1 ");
  CHECK(text_of<L>({chain(0, 2, 0, 0)}, {{{}, kStaged, 0, true}}, {kept}) == "1<0=0 2<-=1 ");
  // Of a tree, what does not follow begins again: behind what the state has taken in by then.
  CHECK(text_of<L>({{0, 5, 0, 2, kPath, kBegin}}, {{kCommitted, kStaged, 1, false}}, {kept}) ==
        "9<s1>0 1<-=0 2<s0=1 1<s0 3<-=2 1<s0 4<-=3 5<-=4 ");
  // A pass over the last nodes of a chain begins with those above.
  CHECK(text_of<L>({chain(0, 1, 2, 2)}, {{kCommitted, kStaged, 1, false}}, {kept}) ==
        "9<s1>0 1<- 2<- 3<-=0 ");
}

TEST_CASE("rows of one storage are one walk, wherever they are in the pass") {
  using L = ReplayLayer;
  const std::vector<fd::SequenceRows> rows{chain(0, 1, 0, 2), chain(1, 1, 0, 0), chain(2, 1, 1, 2)};
  // Of the second of them LayerStack says that nothing is lacking.
  const std::vector<fd::StateRows> states{
      {kCommitted, kStaged, 2, true}, {{}, kStaged, 0, true}, {kCommitted, kStaged, 0, false}};
  const std::vector<L> kept{layer_of<L>(0), layer_of<L>(1), layer_of<L>(0)};
  CHECK(text_of<L>(rows, states, kept) == "8<0 9<->1 1<-=0 1<s1 2<-=2 | 1<0=1 ");
  const StateSteps steps{std::span(rows), std::span(states), std::span(kept)};
  REQUIRE(steps.rows.size() == 3);
  // The row before the third is in the pass; those before it are not.
  const StateRow& third = steps.rows[2];
  CHECK((third.row == 2 && third.sequence == 2));
  CHECK((third.taps[0].row == 2 && third.taps[0].pass_row == 2));
  CHECK((third.taps[1].row == 1 && third.taps[1].pass_row == 0));
  CHECK((third.taps[2].row == 9 && third.taps[2].pass_row == -1));
  CHECK((third.taps[3].row == 8 && third.taps[3].pass_row == -1));
  CHECK(third.taps[4].row == -1);
  // The same number in another storage is another row.
  CHECK((steps.rows[1].taps[0].row == 1 && steps.rows[1].taps[0].pass_row == 1));
}

TEST_CASE("more sequences than a launch serves") {
  using L = ReplayLayer;
  std::vector<fd::SequenceRows> rows;
  std::vector<fd::StateRows> states;
  std::vector<L> kept;
  std::vector<float> many(100);
  for (int i = 0; i < 70; ++i) {
    rows.push_back(chain(i, 1, 0, 2));
    states.push_back({kCommitted, kStaged, i == 69 ? 0 : 1, false});
    L layer;
    layer.inputs = many.data() + (i == 69 ? 0 : i);  // the last goes on where the first was
    kept.push_back(layer);
  }
  rows.back() = chain(69, 1, 1, 2);
  const StateSteps steps{std::span(rows), std::span(states), std::span<const L>(kept)};
  REQUIRE(steps.groups.size() == 3);
  CHECK(steps.groups[1].first_sequence == kSequences);
  CHECK(steps.groups[1].first_row == kSequences);
  CHECK(steps.groups[1].first_walk == kSequences);
  CHECK(steps.groups[2].n_sequences == 70 - 2 * kSequences);
  CHECK(steps.groups[2].n_walks == 70 - 2 * kSequences);
  CHECK(steps.walks.back().sequence == 69 - 2 * kSequences);
  // What the first group has written is what the last begins with.
  const StateStep& first = steps.steps[fd::idx(steps.walks.back().first)];
  CHECK((first.row == 1 && first.from == 1));
  CHECK(steps.rows.back().taps[1].pass_row == 0);
}

namespace {

struct Convolve {
  static constexpr const char* kName = "convolve";
  static constexpr int kThreads = 32;
  struct Args {
    const StateRow* row;
    StateLayer layer;
    const float* kernel;
    const float* pass;
    int n_taps;
    float* out;
  };
  template <typename T>
  FOREDRAFT_DEVICE static void run(T& t, const Args& a) {
    const int c = t.thread();
    const auto own = [&](int row) { return t.load(a.pass + row * kThreads + c); };
    t.store(a.out + c, convolved(t, a.row, a.layer, a.n_taps, a.kernel, kThreads, c, 0.25f, own));
  }
};

}  // namespace

TEST_CASE("taps are found in the storage, in the pass, or are zeros") {
  const std::vector<float> inputs = mini::normals(4 * 32, 1), pass = mini::normals(3 * 32, 2),
                           kernel = mini::normals(4 * 32, 3);
  StateRow row;
  row.taps[0] = {0, 2};   // its row of the storage is being written
  row.taps[1] = {3, -1};  //
  row.taps[2] = {1, 0};   // and before it nothing
  const on_device::Array<float> of_storage(inputs), of_pass(pass), weights(kernel), out(32);
  const on_device::Array<StateRow> rows(std::vector<StateRow>{row});
  StateLayer layer;
  layer.inputs = of_storage.data();
  layer.n_inputs = 32;
  on_device::launch<Convolve>({}, 0,
                              {rows.data(), layer, weights.data(), of_pass.data(), 4, out.data()});
  const std::vector<float> found = out.read();
  for (std::size_t c = 0; c < 32; ++c) {
    const double expected =
        0.25 + static_cast<double>(pass[c]) * static_cast<double>(kernel[32 + c]) +
        static_cast<double>(inputs[96 + c]) * static_cast<double>(kernel[64 + c]) +
        static_cast<double>(pass[64 + c]) * static_cast<double>(kernel[96 + c]);
    CHECK(found[c] == Approx(expected).margin(1e-5));
  }
}
