#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/constraint/grammar.hpp>
#include <foredraft/constraint/json_grammar.hpp>
#include <foredraft/core/index.hpp>

namespace foredraft::inline v0 {

/// What stands between the brackets of arrays and the braces of objects whose parts are prescribed.
class JsonLists {
 public:
  using Expression = Grammar::Expression;

  struct Member {
    std::string name;
    Expression pair;
    bool required;
  };

  /// Both must outlive it.
  JsonLists(Grammar& grammar, JsonGrammar& json) : g_(grammar), json_(json) {}

  /// min .. max items: `first` in their order, then as many of `further` as there is room for.
  Expression items(std::vector<Expression> first, std::optional<Expression> further, int min,
                   int max) {
    const auto n_first = static_cast<int>(first.size());
    const auto up_to = [max](int n) {
      return max == Grammar::kUnbounded ? max : std::max(max - n, 0);
    };
    // From the end: what may follow behind so many items.
    Expression behind = g_.text("");
    if (further) {
      const int written = std::max(n_first, 1);
      behind = repeat(g_.sequence({json_.comma(), *further}), min - written, up_to(written));
      if (n_first == 0) first.push_back(*further);
    } else if (min > n_first) {
      return g_.either({});
    }
    for (int i = static_cast<int>(first.size()) - 1; i >= 0; --i) {
      std::vector<Expression> ways;
      if (i >= min) ways.push_back(g_.text(""));
      if (max == Grammar::kUnbounded || i < max) {
        const Expression item = first[idx(i)];
        ways.push_back(i == 0 ? g_.sequence({item, behind})
                              : g_.sequence({json_.comma(), item, behind}));
      }
      behind = g_.call(g_.rule("items", g_.either(std::move(ways))));
    }
    return behind;
  }

  /// The members in their order, those that need not be there left out or not, then others. A comma
  /// goes before all but the first that is there.
  Expression members(const std::vector<Member>& members, std::optional<Expression> other) {
    Expression first = g_.text("");  // where none is written yet
    Expression later = first;        // where one is
    if (other) {
      first = json_.list(*other);
      later = g_.repeat(g_.sequence({json_.comma(), *other}), 0);
    }
    for (auto member = members.rbegin(); member != members.rend(); ++member) {
      std::vector<Expression> begin{g_.sequence({member->pair, later})};
      std::vector<Expression> go_on{g_.sequence({json_.comma(), member->pair, later})};
      if (!member->required) begin.push_back(first), go_on.push_back(later);
      first = g_.call(g_.rule("members", g_.either(std::move(begin))));
      later = g_.call(g_.rule("members", g_.either(std::move(go_on))));
    }
    return first;
  }

 private:
  Expression repeat(Expression part, int min, int max) {
    min = std::max(min, 0);
    if (max != Grammar::kUnbounded && max < min) return g_.either({});
    return g_.repeat(g_.call(g_.rule("item", part)), min, max);
  }

  Grammar& g_;
  JsonGrammar& json_;
};

}  // namespace foredraft::inline v0
