#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/core/stats.hpp>
#include <foredraft/core/types.hpp>

#include "together.hpp"
#include "usage.hpp"

namespace cli {

/// What was thrown, as data: an exception that several threads hold is theirs no longer.
struct Failure {
  std::string message;
  std::optional<fd::ErrorCode> code = {};  ///< of an fd::Error

  /// The exception that is being handled.
  static Failure current();
};

/// What happened to one of the texts that somebody asked for: a token, its end, or what it failed with.
struct Event {
  int text = 0;  ///< which of them, from 0
  std::variant<fd::Emitted, fd::Result, Failure> what;

  /// It is the last one of this text.
  bool last() const noexcept { return !std::holds_alternative<fd::Emitted>(what); }
};

/// From the thread that writes texts to the one that waits for them. Each text ends with one event,
/// but behind a failure nothing need come, of no text.
class Channel {
 public:
  void send(Event event);
  /// What was sent since the last call. Where that is nothing, it waits for something, `patience` at most.
  /// @errors std::runtime_error where nothing more will come
  std::vector<Event> receive(std::chrono::milliseconds patience);

  /// Nobody sends any more, not even the ends of texts.
  void abandon() noexcept;

  /// Nobody receives any more: the texts may end.
  void close() noexcept { closed_ = true; }
  bool closed() const noexcept { return closed_; }

 private:
  std::mutex mutex_;
  std::condition_variable sent_;
  std::vector<Event> events_;
  bool abandoned_ = false;
  std::atomic<bool> closed_ = false;
};

/// A text that somebody asks for.
struct Job {
  std::vector<fd::TokenId> prompt;
  fd::Options options;
  std::shared_ptr<Channel> channel;
  int text = 0;
  bool streams = true;  ///< each token is sent as it comes, not the end alone
};

/// Has texts written that many threads ask for, first come, first served: as many at once as there are
/// writers. A prompt goes to the writer whose last text it shares most with.
class Scheduler {
 public:
  using Stopped = std::function<bool()>;

  /// @param stopped  polled; once it says so, all texts end as cancelled, and run() does
  Scheduler(Together& together, int writers, Stopped stopped)
      : together_(together),
        writers_(static_cast<std::size_t>(writers)),
        stopped_(std::move(stopped)) {}

  /// From any thread. What comes of it, refusals too, is sent through the channel.
  void add(Job job);

  /// Write what is asked for. By one thread, the only one that calls the Together. What it throws is
  /// the end of all texts.
  void run();

  struct State {
    int writing = 0;
    int waiting = 0;
    std::int64_t done = 0;  ///< texts, those that failed included
    fd::Stats stats = {};   ///< of those that did not fail
  };
  /// From any thread.
  State state() const;

 private:
  struct Writer {
    std::future<fd::Result> text;  // valid while it writes
    Job job;
    std::uint64_t used = 0;  // when it was given its last text
    bool failed = false;     // it was told, and ends in the next step
  };

  void abandon() noexcept;
  bool wait_for_work();
  bool take(Job& job);
  void begin(Job job);
  void step();
  void collect();
  void keep(int writer) noexcept;
  void finish(Event event, const Job& job);
  void count(const fd::Stats& stats);
  int best_writer(std::span<const fd::TokenId> prompt) const;
  int writing() const;

  Together& together_;
  std::vector<Writer> writers_;  // of the thread that runs
  Stopped stopped_;
  std::uint64_t begun_ = 0;

  mutable std::mutex mutex_;  // of what is below
  std::condition_variable added_;
  std::deque<Job> waiting_;
  bool ended_ = false;  // run(): nobody writes any more
  State state_;
};

}  // namespace cli
