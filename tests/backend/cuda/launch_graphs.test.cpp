// Which launches are started as a graph, which graphs are kept, and what of them is told anew: with a
// driver that writes down what it is asked for. That kernels compute the same in graphs, HostDevice
// shows in every other test of kernels and models.

#include <foredraft/backend/cuda/launch_graphs.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;
using namespace fd::cuda;

namespace {

struct Add {
  static constexpr const char* kName = "add";
  static constexpr int kThreads = 32;
  struct Args {
    int x;
  };
};

struct Log {
  std::vector<std::string> lines;
  std::vector<int> executed;  // arguments
  int fail_update_of = -1;
  bool fail_graph = false;
  bool fail_start = false;
  int alive = 0;  // graphs
};

class Driver {
 public:
  struct Graph {
    Graph(Log& of, const LaunchList& launches) : log(&of), list(launches) { ++log->alive; }
    Graph(Graph&& other) noexcept : log(other.log), list(std::move(other.list)) { ++log->alive; }
    Graph& operator=(Graph&& other) noexcept {
      list = std::move(other.list);
      return *this;
    }
    ~Graph() { --log->alive; }
    Log* log;
    LaunchList list;
  };

  explicit Driver(Log& log) : log_(&log) {}
  void start(const LaunchList& list, int i) { execute(list, i); }
  Graph graph_of(const LaunchList& list) {
    if (log_->fail_graph) throw std::runtime_error("no graph");
    log_->lines.push_back("make " + std::to_string(list.size()));
    return {*log_, list};
  }
  void update(Graph& graph, const LaunchList& list, int i) {
    if (i == log_->fail_update_of) throw std::runtime_error("no update");
    log_->lines.push_back("update " + std::to_string(i));
    graph.list.take(list, i);
  }
  void start(Graph& graph) {
    for (int i = 0; i < graph.list.size(); ++i) execute(graph.list, i);
  }

 private:
  void execute(const LaunchList& list, int i) {
    if (log_->fail_start) throw std::runtime_error("no start");
    log_->executed.push_back(static_cast<const Add::Args*>(list.args(i))->x);
  }
  Log* log_;
};

const int kKernels[40] = {};  // addresses stand for kernels

struct Fixture {
  Log log;
  LaunchGraphs<Driver> graphs{Driver(log)};

  /// Run launches with these arguments. @return what the driver was asked for besides starting them
  std::vector<std::string> run(const std::vector<int>& args, int rows = 1, int first_kernel = 0) {
    log.lines.clear();
    log.executed.clear();
    LaunchList list;
    for (std::size_t i = 0; i < args.size(); ++i) {
      list.add<Add>(kKernels + (i == 0 ? first_kernel : 0), {i == 0 ? rows : 1}, 0, {args[i]});
    }
    graphs.run(list);
    CHECK(list.empty());
    CHECK(log.executed == args);
    return log.lines;
  }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a few launches are started one by one") {
  Fixture f;
  CHECK(f.run({}).empty());
  CHECK(f.run({1, 2, 3, 4, 5}).empty());
  CHECK(f.graphs.kept() == 0);
}

TEST_CASE("a graph is made once, and told what is new") {
  Fixture f;
  CHECK(f.run({1, 2, 3, 4, 5, 6}) == Lines{"make 6"});
  CHECK(f.run({1, 2, 3, 4, 5, 6}).empty());
  CHECK(f.run({1, 2, 9, 4, 5, 8}) == Lines{"update 2", "update 5"});
  CHECK(f.run({1, 2, 9, 4, 5, 6}) == Lines{"update 5"});
  CHECK(f.graphs.kept() == 1);
}

TEST_CASE("other rows, kernels or lengths have a graph of their own") {
  Fixture f;
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 1) == Lines{"make 6"});
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 2) == Lines{"make 6"});
  CHECK(f.run({1, 2, 3, 4, 5, 6, 7}, 1) == Lines{"make 7"});
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 1, 1) == Lines{"make 6"});
  CHECK(f.run({1, 2, 3, 4, 5, 7}, 2) == Lines{"update 5"});
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 1).empty());
  CHECK(f.graphs.kept() == 4);
  CHECK(f.log.alive == 4);
}

TEST_CASE("the graph that was not used for longest is given up") {
  Fixture f;
  constexpr int kMost = LaunchGraphs<Driver>::kMost;
  for (int rows = 1; rows <= kMost; ++rows) f.run({1, 2, 3, 4, 5, 6}, rows);
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 1).empty());
  CHECK(f.run({1, 2, 3, 4, 5, 6}, kMost + 1) == Lines{"make 6"});
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 1).empty());
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 3).empty());
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 2) == Lines{"make 6"});  // it was the one
  CHECK(f.graphs.kept() == kMost);
  CHECK(f.log.alive == kMost);
}

TEST_CASE("where there can be no graph, launches are started one by one") {
  Fixture f;
  f.run({1, 2, 3, 4, 5, 6});
  f.log.fail_update_of = 5;
  CHECK(f.run({7, 2, 3, 4, 5, 8}) == Lines{"update 0"});
  CHECK(f.log.alive == 0);  // none that is half new
  f.log.fail_update_of = -1;
  CHECK(f.run({7, 2, 3, 4, 5, 6}) == Lines{"make 6"});

  f.log.fail_graph = true;
  CHECK(f.run({1, 2, 3, 4, 5, 6}, 2).empty());
  CHECK(f.graphs.kept() == 1);
}

TEST_CASE("a list is empty behind a launch that fails") {
  Fixture f;
  f.log.fail_start = true;
  LaunchList list;
  for (const int n : {3, 6}) {
    for (int i = 0; i < n; ++i) list.add<Add>(kKernels, {}, 0, {i});
    CHECK_THROWS_WITH(f.graphs.run(list), "no start");
    CHECK(list.empty());
  }
}
