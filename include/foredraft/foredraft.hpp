#pragma once

/// Everything that needs no model code of ours and no file format: the loop, drafters and
/// acceptance rules. An engine with its own forward pass includes this and brings a Target.

#include <foredraft/acceptance/any_acceptance.hpp>
#include <foredraft/acceptance/block_verification.hpp>
#include <foredraft/acceptance/greedy.hpp>
#include <foredraft/acceptance/lossy.hpp>
#include <foredraft/acceptance/rejection_sampling.hpp>
#include <foredraft/acceptance/sample_and_match.hpp>
#include <foredraft/batch.hpp>
#include <foredraft/cache/token_cache.hpp>
#include <foredraft/constraint/token_list.hpp>
#include <foredraft/core/concepts.hpp>
#include <foredraft/core/options.hpp>
#include <foredraft/core/result.hpp>
#include <foredraft/decoder.hpp>
#include <foredraft/drafter/any_drafter.hpp>
#include <foredraft/drafter/draft_choice.hpp>
#include <foredraft/drafter/forced_tokens.hpp>
#include <foredraft/drafter/lookahead.hpp>
#include <foredraft/drafter/ngram_cache.hpp>
#include <foredraft/drafter/ngram_map_k.hpp>
#include <foredraft/drafter/ngram_map_k4v.hpp>
#include <foredraft/drafter/ngram_mod.hpp>
#include <foredraft/drafter/ngram_simple.hpp>
#include <foredraft/drafter/no_draft.hpp>
#include <foredraft/drafter/prompt_lookup.hpp>
#include <foredraft/drafter/sibling_picker.hpp>
#include <foredraft/drafter/suffix_automaton.hpp>
#include <foredraft/drafter/suffix_decoding.hpp>
#include <foredraft/drafter/token_recycling.hpp>
#include <foredraft/generate.hpp>
#include <foredraft/trace/trace_writer.hpp>
#include <foredraft/turn.hpp>
#include <foredraft/version.hpp>
