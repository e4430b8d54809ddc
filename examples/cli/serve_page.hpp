#pragma once

#include <string_view>

namespace cli {

/// serve_page.html: a chat with the model that is served, which needs nothing beside itself.
extern const std::string_view kServePage;

}  // namespace cli
