#pragma once

#include <string_view>

namespace cli {

/// report_page.html: a page that needs nothing beside itself, with a place for what it shows.
extern const std::string_view kReportPage;
inline constexpr std::string_view kReportPlace = "@FOREDRAFT_TRACE@";

}  // namespace cli
