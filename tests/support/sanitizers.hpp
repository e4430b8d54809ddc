#pragma once

/// FOREDRAFT_UNDER_ASAN: the address sanitizer watches, in the spellings of g++ and clang. It ends
/// the program where memory of an absurd size is asked for, so such a request cannot be tested.
#if defined(__SANITIZE_ADDRESS__)
#define FOREDRAFT_UNDER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOREDRAFT_UNDER_ASAN
#endif
#endif

/// FOREDRAFT_UNDER_SANITIZER: that one, or the thread sanitizer. Both keep memory beside the
/// program's.
#if defined(FOREDRAFT_UNDER_ASAN) || defined(__SANITIZE_THREAD__)
#define FOREDRAFT_UNDER_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FOREDRAFT_UNDER_SANITIZER
#endif
#endif
