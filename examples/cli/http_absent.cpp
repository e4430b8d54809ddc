#include "http.hpp"

// In place of http.cpp where cpp-httplib was not found.
namespace cli {

struct HttpServer::Parts {};

HttpServer::HttpServer(HttpSettings, const fd::Tokenizer&, const RequestReader&, Scheduler&) {
  check_http();
}
HttpServer::~HttpServer() = default;

int HttpServer::port() const noexcept { return 0; }
void HttpServer::start() {}
bool HttpServer::ended() const noexcept { return true; }

void check_http() {
  throw UsageError("serve in a program that was built without cpp-httplib",
                   "one that was built with it", "install libcpp-httplib-dev, and build again");
}

}  // namespace cli
