#include "scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <utility>

#include <foredraft/core/index.hpp>

namespace cli {

namespace {

/// How long a signal may go unnoticed while nothing is written.
constexpr std::chrono::milliseconds kPatience{100};

fd::Result cancelled() {
  fd::Result result;
  result.finish_reason = fd::FinishReason::kCancelled;
  return result;
}

bool ready(const std::future<fd::Result>& text) {
  return text.valid() && text.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

Failure Failure::current() {
  try {
    throw;
  } catch (const fd::Error& error) {
    return {error.what(), error.code()};
  } catch (const std::exception& error) {
    return {error.what()};
  } catch (...) {
    return {"an exception of another kind"};
  }
}

void Channel::send(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  sent_.notify_one();
}

std::vector<Event> Channel::receive(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  sent_.wait_for(lock, patience, [this] { return !events_.empty() || abandoned_; });
  if (events_.empty() && abandoned_) throw std::runtime_error("nobody writes any more");
  return std::exchange(events_, {});
}

void Channel::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  sent_.notify_one();
}

void Scheduler::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      waiting_.push_back(std::move(job));
      added_.notify_one();
      return;
    }
  }
  job.channel->send({job.text, cancelled()});
}

void Scheduler::run() {
  try {
    while (wait_for_work()) {
      for (Job job; take(job);) begin(std::move(job));
      step();
      collect();
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void Scheduler::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const Job& job : waiting_) job.channel->abandon();
  for (const Writer& writer : writers_) {
    if (writer.job.channel) writer.job.channel->abandon();
  }
}

Scheduler::State Scheduler::state() const {
  const std::lock_guard lock(mutex_);
  State state = state_;
  state.waiting = static_cast<int>(waiting_.size());
  return state;
}

/// @return false where all is over
bool Scheduler::wait_for_work() {
  std::unique_lock lock(mutex_);
  while (waiting_.empty() && writing() == 0 && !stopped_()) added_.wait_for(lock, kPatience);
  if (!stopped_()) return true;
  ended_ = true;
  for (const Job& job : std::exchange(waiting_, {})) job.channel->send({job.text, cancelled()});
  return writing() > 0;  // these learn of it in their next step
}

/// The next text that somebody still waits for, if there is a writer for it.
bool Scheduler::take(Job& job) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [](const Job& waits) { return waits.channel->closed(); });
  if (waiting_.empty() || writing() == static_cast<int>(writers_.size())) return false;
  job = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

void Scheduler::begin(Job job) {
  const int index = best_writer(job.prompt);
  Writer& writer = writers_[fd::idx(index)];
  const auto channel = job.channel;
  job.options.cancelled = [this, channel] { return channel->closed() || stopped_(); };
  Together::Emit emit;
  if (job.streams) {
    emit = [channel, text = job.text](const fd::Emitted& token) { channel->send({text, token}); };
  }
  try {
    writer.text = together_.generate(index, job.prompt, job.options, std::move(emit));
  } catch (...) {
    return finish({job.text, Failure::current()}, job);
  }
  writer.job = std::move(job);
  writer.used = ++begun_;
  const std::lock_guard lock(mutex_);
  state_.writing = writing();
}

/// Where a pass fails, so do the texts that take part; the server goes on.
void Scheduler::step() {
  try {
    together_.step();
  } catch (...) {
    for (Writer& writer : writers_) {
      if (!writer.text.valid() || ready(writer.text)) continue;
      writer.failed = true;
      writer.job.channel->send({writer.job.text, Failure::current()});
      writer.job.channel->close();
    }
    together_.step();  // in which they end
  }
}

void Scheduler::collect() {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    Writer& writer = writers_[i];
    if (!ready(writer.text)) continue;
    Event event{writer.job.text, {}};
    try {
      event.what = writer.text.get();
    } catch (...) {
      event.what = Failure::current();
    }
    const Job job = std::exchange(writer.job, {});
    if (!std::exchange(writer.failed, false)) {
      finish(std::move(event), job);
      keep(static_cast<int>(i));
    } else {
      count({});
    }
  }
}

/// Who begins like it will read less. Without memory for that, more.
void Scheduler::keep(int writer) noexcept {
  try {
    together_.keep(writer);
  } catch (...) {
  }
}

void Scheduler::finish(Event event, const Job& job) {
  const auto* const result = std::get_if<fd::Result>(&event.what);
  count(result == nullptr ? fd::Stats{} : result->stats);
  job.channel->send(std::move(event));
}

/// A text that is over.
void Scheduler::count(const fd::Stats& stats) {
  const std::lock_guard lock(mutex_);
  ++state_.done;
  state_.writing = writing();
  state_.stats += stats;
}

/// One that is free: whose text the prompt shares most with, and of equal ones that unused for longest.
int Scheduler::best_writer(std::span<const fd::TokenId> prompt) const {
  int best = -1;
  std::ptrdiff_t most = -1;
  for (int i = 0; i < static_cast<int>(writers_.size()); ++i) {
    const Writer& writer = writers_[fd::idx(i)];
    if (writer.text.valid()) continue;
    const auto shared = std::ranges::mismatch(prompt, together_.tokens(i)).in1 - prompt.begin();
    const bool older = best >= 0 && shared == most && writer.used < writers_[fd::idx(best)].used;
    if (shared > most || older) {
      best = i;
      most = shared;
    }
  }
  return best;
}

int Scheduler::writing() const {
  return static_cast<int>(
      std::ranges::count_if(writers_, [](const Writer& writer) { return writer.text.valid(); }));
}

}  // namespace cli
