#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <foredraft/io/tokenizer.hpp>

#include "openai_request.hpp"
#include "scheduler.hpp"
#include "usage.hpp"

namespace cli {

struct HttpSettings {
  std::string host;
  int port = 0;       ///< 0: any that is free
  std::string key;    ///< that requests have to carry; empty: none
  std::string model;  ///< what answers call it
  /// Of the first text whose request has no seed of its own; each further one has the next.
  std::uint32_t sequence = 0;
};

/// Before a model is loaded. @errors UsageError in a program that was built without HTTP
void check_http();

/// The HTTP side of `serve`: it reads requests, hands them to a scheduler and sends what it writes.
class HttpServer {
 public:
  /// Takes the port. All of these outlive the server.
  /// @errors kIo where it is taken, or not ours; as check_http
  HttpServer(HttpSettings settings, const fd::Tokenizer& tokenizer, const RequestReader& reader,
             Scheduler& scheduler);
  /// Lets the answers come to their end: the scheduler has to write, or be over.
  ~HttpServer();

  int port() const noexcept;
  /// Answer from now on, on threads of its own.
  void start();
  /// The port was lost.
  bool ended() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace cli
