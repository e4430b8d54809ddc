#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <foredraft/foredraft.hpp>

/// A language model small enough to read: the next word depends on the last one only, as often as
/// it followed it in a training text. Tokens are words. The numbered examples use it as their
/// target; 04 shows how one is written.
namespace bigram {

namespace fd = foredraft;

/// All that a bigram has to remember of a sequence is its tokens.
using Cache = fd::TokenCache;

class Model {
 public:
  static constexpr bool row_exact = true;

  explicit Model(const std::string& training_text) {
    fd::TokenId last = id(".");
    for (const fd::TokenId token : encode(training_text)) {
      count_.resize(words_.size());
      ++count_[fd::idx(last)][token];
      last = token;
    }
    count_.resize(words_.size());
  }

  /// Words to tokens; a word that training did not show becomes one that nothing is known of.
  std::vector<fd::TokenId> encode(const std::string& text) {
    std::istringstream words(text);
    std::vector<fd::TokenId> tokens;
    for (std::string word; words >> word;) tokens.push_back(id(word));
    return tokens;
  }

  int vocab_size() const { return static_cast<int>(count_.size()); }
  bool is_end(fd::TokenId token) const { return token == 0; }
  std::string piece(fd::TokenId token) const { return words_[fd::idx(token)] + ' '; }

  void forward(std::span<fd::Request<Cache>> requests) const {
    std::vector<float> logits;
    for (fd::Request<Cache>& request : requests) {
      request.scores->reset(request.want, request.count, vocab_size());
      for (int row = 0; row < request.count; ++row) {
        logits.assign(count_.size(),
                      std::log(0.001f));  // every word may follow every other, if rarely
        const auto last = fd::idx(request.cache->token(request.first + row));
        for (const auto& [next, count] : count_[last]) {
          logits[fd::idx(next)] = std::log(static_cast<float>(count));
        }
        request.scores->set_row(row, logits);
      }
    }
  }

 private:
  fd::TokenId id(const std::string& word) {
    const auto known = std::find(words_.begin(), words_.end(), word);
    if (known == words_.end()) words_.push_back(word);
    return static_cast<fd::TokenId>(std::find(words_.begin(), words_.end(), word) - words_.begin());
  }

  std::vector<std::string> words_;                 // [n_vocab]
  std::vector<std::map<fd::TokenId, int>> count_;  // [n_vocab], how often each word followed
};

inline const std::string kText =
    "the cat saw the dog and the dog saw the cat and the cat ran to the house . "
    "the dog ran to the house and the cat saw the dog and sat on the mat . "
    "the mouse sat on the mat and saw the cat and ran to the old house .";

}  // namespace bigram
