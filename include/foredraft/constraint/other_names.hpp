#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/constraint/code_points.hpp>
#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/text_cursor.hpp>

namespace foredraft::inline v0 {

/// Names of members that are none of some others, without escapes, so that each can be written in
/// one way only.
class OtherNames {
 public:
  using Expression = Grammar::Expression;

  /// @param names  of at most a few hundred bytes: each byte of them takes an expression
  /// @errors kInvalidConstraint where a name is not UTF-8
  static Expression write(Grammar& grammar, const std::vector<std::string>& names) {
    std::vector<Name> points;
    for (const std::string& name : names) {
      points.emplace_back();
      TextCursor text(name, "a name");
      while (!text.at_end()) points.back().push_back(text.character());
    }
    return OtherNames(grammar).besides(points, 0);
  }

 private:
  using Name = std::vector<std::uint32_t>;

  explicit OtherNames(Grammar& grammar)
      : g_(grammar),
        plain_(CodePoints(0x20, CodePoints::kLast).without({'"', '"'}).without({'\\', '\\'})),
        any_text_(g_.repeat(g_.call(g_.rule("letter", utf8_character(g_, plain_))), 0)) {}

  /// Behind `at` characters that all of `names` begin with.
  Expression besides(const std::vector<Name>& names, std::size_t at) {
    std::map<std::uint32_t, std::vector<Name>> by_next;
    bool ends = true;
    CodePoints others = plain_;
    for (const Name& name : names) {
      if (name.size() == at) {
        ends = false;
      } else {
        by_next[name[at]].push_back(name);
        others = others.without({name[at], name[at]});
      }
    }
    std::vector<Expression> ways;
    if (ends) ways.push_back(g_.text(""));
    ways.push_back(g_.sequence({utf8_character(g_, others), any_text_}));
    for (const auto& [next, rest] : by_next) {
      if (!plain_.contains(next)) continue;
      ways.push_back(g_.sequence({utf8_character(g_, {next, next}), besides(rest, at + 1)}));
    }
    return g_.either(std::move(ways));
  }

  Grammar& g_;
  CodePoints plain_;
  Expression any_text_;
};

}  // namespace foredraft::inline v0
