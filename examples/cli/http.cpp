#include "http.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <httplib.h>
#include <sys/socket.h>

#include <foredraft/core/error.hpp>

#include "openai_reply.hpp"
#include "output.hpp"
#include "serve_page.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

constexpr time_t kWriteSeconds = 20;  // until a client that reads nothing is given up
constexpr const char* kJson = "application/json";
constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of a request
constexpr int kMostRequests = 256;  // that are answered or wait, each on a thread of its own
constexpr int kOtherThreads = 32;   // for what takes no time, and for connections that say nothing
/// How long a client may be gone before somebody notices, where nothing is sent.
constexpr std::chrono::milliseconds kPatience{100};

/// A request on its way to be answered.
class Answering {
 public:
  /// @param alive  how many there are
  Answering(TextRequest request, const fd::Tokenizer& tokenizer, const std::string& model,
            std::atomic<int>& alive)
      : request_(std::move(request)), reply_(request_, tokenizer, model), alive_(alive) {
    ++alive_;
  }
  ~Answering() {
    channel_->close();
    --alive_;
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  const TextRequest& request() const noexcept { return request_; }

  /// Have the texts written.
  /// @param sequence  of the first one, where its seed is not the request's own
  void begin(Scheduler& scheduler, std::uint32_t sequence) {
    for (int text = 0; text < request_.texts(); ++text) {
      Job job{request_.prompt_of(text), request_.options, channel_, text, request_.stream};
      job.options.sequence = (request_.seeded ? 0 : sequence) + static_cast<std::uint32_t>(text);
      scheduler.add(std::move(job));
    }
  }

  /// Send what there is. @return false where nobody reads it, or it is not to be had: httplib then ends
  /// the connection
  bool send_to(httplib::DataSink& sink) noexcept {
    try {
      std::vector<Event> events = channel_->receive(kPatience);
      if (!sink.is_writable()) return false;
      std::string out;
      bool over = false;
      for (std::size_t i = 0; i < events.size() && !over; ++i) {
        over = request_.stream ? stream(std::move(events[i]), out)
                               : collect(std::move(events[i]), out);
      }
      if (!out.empty() && !sink.write(out.data(), out.size())) return false;
      if (over) sink.done();
      return true;
    } catch (const std::exception& error) {
      // A status was sent already.
      std::cerr << "foredraft: error: " << visible(error.what()) << std::endl;
      return false;
    }
  }

 private:
  /// @return whether that was all
  bool stream(Event event, std::string& out) {
    const auto add = [&](const Json& json) { out += "data: " + text_of(json) + "\n\n"; };
    if (const auto* token = std::get_if<fd::Emitted>(&event.what)) {
      if (const auto chunk = reply_.chunk(event.text, *token)) add(*chunk);
      return false;
    }
    if (auto* result = std::get_if<fd::Result>(&event.what)) {
      add(reply_.last_chunk(event.text, *result));
      reply_.add(event.text, std::move(*result));
      if (!reply_.complete()) return false;
      if (request_.stream_usage) add(reply_.usage_chunk());
    } else {
      add(http_error(std::get<Failure>(event.what)).body);
    }
    out += "data: [DONE]\n\n";
    return true;
  }

  /// @errors std::runtime_error where a text failed
  bool collect(Event event, std::string& out) {
    if (const auto* failure = std::get_if<Failure>(&event.what)) {
      throw std::runtime_error(failure->message);
    }
    reply_.add(event.text, std::move(std::get<fd::Result>(event.what)));
    if (reply_.complete()) out = text_of(reply_.whole());
    return reply_.complete();
  }

  TextRequest request_;
  Reply reply_;
  std::atomic<int>& alive_;
  std::shared_ptr<Channel> channel_ = std::make_shared<Channel>();
};

/// For Prometheus.
std::string metrics_of(const Scheduler::State& state) {
  const fd::Stats& stats = state.stats;
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* about, long long value) {
    text += formatted("# HELP foredraft_%s %s\n# TYPE foredraft_%s %s\nforedraft_%s %lld\n", name,
                      about, name, type, name, value);
  };
  add("texts_writing", "gauge", "Texts that are being written.", state.writing);
  add("texts_waiting", "gauge", "Texts that wait for a writer.", state.waiting);
  add("texts_total", "counter", "Texts that are over.", state.done);
  add("prompt_tokens_total", "counter", "Tokens of prompts.", stats.prompt_tokens);
  add("reused_tokens_total", "counter", "Tokens of prompts that were known.", stats.reused_tokens);
  add("tokens_total", "counter", "Tokens written.", stats.emitted);
  add("drafted_tokens_total", "counter", "Tokens drafted.", stats.drafted);
  add("accepted_tokens_total", "counter", "Tokens drafted and kept.", stats.accepted);
  return text;
}

void set_error(httplib::Response& response, int status, const Json& body) {
  response.status = status;
  response.set_content(text_of(body), kJson);
}

}  // namespace

struct HttpServer::Parts {
  HttpSettings settings;
  const fd::Tokenizer& tokenizer;
  const RequestReader& reader;
  Scheduler& scheduler;
  httplib::Server server = {};
  int port = 0;
  std::atomic<std::uint32_t> sequence = 0;
  std::atomic<int> answering = 0;  // requests
  socket_t listening = INVALID_SOCKET;
  std::thread listener = {};
  std::atomic<bool> ended = false;    // the listener
  std::atomic<bool> closing = false;  // nobody writes any more

  void set_up();
  void route();
  template <typename Read>
  httplib::Server::HandlerWithContentReader answer_to(Read read);
  void answer(TextRequest request, httplib::Response& response);
  bool has_room(httplib::Response& response) const;
  bool authorized(const httplib::Request& request, httplib::Response& response) const;
};

/// Limits, and how errors look.
void HttpServer::Parts::set_up() {
  // Which httplib deletes.
  server.new_task_queue = [] { return new httplib::ThreadPool(kMostRequests + kOtherThreads); };
  // httplib's own let two servers share a port, and a request come to either.
  server.set_socket_options([this](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listening = socket;
  });
  server.set_payload_max_length(kMostBytes);
  server.set_write_timeout(kWriteSeconds);
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(1000);
  server.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr thrown) {
        try {
          std::rethrow_exception(std::move(thrown));
        } catch (...) {
          const HttpError found = http_error(Failure::current());
          set_error(response, found.status, found.body);
        }
      });
  server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    const std::string what = request.method + " " + request.path;
    set_error(response, response.status,
              error_body(response.status == 404 ? what + " is nothing that this server has"
                                                : what + " cannot be answered",
                         "invalid_request_error", "status_" + std::to_string(response.status)));
  });
}

/// The handler of a request with a body, which `read` understands.
template <typename Read>
httplib::Server::HandlerWithContentReader HttpServer::Parts::answer_to(Read read) {
  return [this, read](const httplib::Request& request, httplib::Response& response,
                      const httplib::ContentReader& content) {
    // All of it is read, whatever becomes of it: what follows is the next request. What is packed has
    // its size only now.
    const bool wanted = authorized(request, response) && has_room(response);
    std::string body;
    std::size_t bytes = 0;
    const bool fits = content([&](const char* data, std::size_t size) {
      bytes += size;
      if (wanted) body.append(data, size);
      return bytes <= kMostBytes;
    });
    if (!fits) {
      response.set_header("Connection", "close");
      return set_error(
          response, 413,
          error_body("a body that is too large, or damaged", "invalid_request_error", "body"));
    }
    if (wanted) answer(read(body), response);
  };
}

void HttpServer::Parts::route() {
  using httplib::Request, httplib::Response;
  server.Post("/v1/chat/completions",
              answer_to([this](const std::string& body) { return reader.chat(body); }));
  server.Post("/v1/completions",
              answer_to([this](const std::string& body) { return reader.completion(body); }));
  server.Get("/v1/models", [this](const Request& request, Response& response) {
    if (!authorized(request, response)) return;
    const Json model{
        {"id", settings.model}, {"object", "model"}, {"created", 0}, {"owned_by", "foredraft"}};
    response.set_content(text_of({{"object", "list"}, {"data", Json::array({model})}}), kJson);
  });
  server.Get("/health", [](const Request&, Response& response) {
    response.set_content(R"({"status":"ok"})", kJson);
  });
  server.Get("/metrics", [this](const Request& request, Response& response) {
    if (!authorized(request, response)) return;
    response.set_content(metrics_of(scheduler.state()), "text/plain; version=0.0.4");
  });
  server.Get("/", [](const Request&, Response& response) {
    response.set_content(std::string(kServePage), "text/html; charset=utf-8");
  });
}

void HttpServer::Parts::answer(TextRequest request, httplib::Response& response) {
  const auto job =
      std::make_shared<Answering>(std::move(request), tokenizer, settings.model, answering);
  job->begin(scheduler, sequence.fetch_add(static_cast<std::uint32_t>(job->request().texts())));
  response.set_chunked_content_provider(
      job->request().stream ? "text/event-stream" : kJson,
      [job](std::size_t, httplib::DataSink& sink) { return job->send_to(sink); });
}

/// There is, else the response says so.
bool HttpServer::Parts::has_room(httplib::Response& response) const {
  const bool ends = closing;
  if (!ends && answering < kMostRequests) return true;
  response.set_header("Retry-After", "1");
  set_error(response, 503,
            error_body(ends ? "the server ends" : "too many requests at once", "server_error",
                       "unavailable"));
  return false;
}

/// Where a key is asked for, the request has it; else the response says so.
bool HttpServer::Parts::authorized(const httplib::Request& request,
                                   httplib::Response& response) const {
  if (settings.key.empty()) return true;
  const std::string given = request.get_header_value("Authorization");
  const std::string expected = "Bearer " + settings.key;
  // Looks at all of it, however soon they differ.
  bool differ = given.size() != expected.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    differ |= given[i] != expected[i % expected.size()];
  }
  if (differ) {
    set_error(response, 401,
              error_body("a key is missing, or is another one: Authorization: Bearer KEY",
                         "authentication_error", "invalid_api_key"));
  }
  return !differ;
}

HttpServer::HttpServer(HttpSettings settings, const fd::Tokenizer& tokenizer,
                       const RequestReader& reader, Scheduler& scheduler)
    : parts_(new Parts{std::move(settings), tokenizer, reader, scheduler}) {
  parts_->sequence = parts_->settings.sequence;
  parts_->set_up();
  parts_->route();
  const HttpSettings& at = parts_->settings;
  const bool bound = at.port == 0 ? (parts_->port = parts_->server.bind_to_any_port(at.host)) > 0
                                  : parts_->server.bind_to_port(at.host, at.port);
  if (at.port != 0) parts_->port = at.port;
  // httplib lets five wait to be accepted, and the system resets further ones.
  if (bound && listen(parts_->listening, SOMAXCONN) == 0) return;
  throw fd::Error(fd::ErrorCode::kIo,
                  at.host + ":" + std::to_string(at.port) + ", which cannot be used",
                  "an address of this machine and a port that is free", "--host, --port");
}

HttpServer::~HttpServer() {
  const auto wait_while = [](const auto& condition) {
    while (condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  parts_->closing = true;
  // stop() cuts off who is being answered, and does nothing before the listener listens.
  wait_while([this] { return parts_->answering > 0; });
  wait_while([this] {
    return parts_->listener.joinable() && !parts_->ended && !parts_->server.is_running();
  });
  parts_->server.stop();
  if (parts_->listener.joinable()) parts_->listener.join();
}

int HttpServer::port() const noexcept { return parts_->port; }

void HttpServer::start() {
  parts_->listener = std::thread([parts = parts_.get()] {
    parts->server.listen_after_bind();
    parts->ended = true;
  });
}

bool HttpServer::ended() const noexcept { return parts_->ended; }

void check_http() {}

}  // namespace cli
