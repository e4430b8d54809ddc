"""Every header includes the standard headers whose names it uses, and no others.

tests/alone compiles each header behind all standard headers, so what one lacks of them would not be seen there. Headers
of the system (POSIX) are not looked at.
"""

import pathlib
import re
import sys

from headers import without_comments

# Names of std that the library uses, by the header that declares them. Where several do, any of them will do.
NAMES = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp copy copy_backward copy_n count count_if equal
        equal_range fill fill_n find find_if for_each is_sorted lexicographical_compare lower_bound max max_element min
        min_element minmax mismatch move_backward none_of nth_element pop_heap push_heap remove_if replace_copy reverse rotate
        sort sort_heap stable_sort unique upper_bound ranges::adjacent_find ranges::count ranges::equal ranges::lower_bound
        ranges::sort""",
    "array": "array",
    "atomic": """atomic memory_order_acq_rel memory_order_acquire memory_order_relaxed memory_order_release
        memory_order_seq_cst""",
    "bit": "bit_cast bit_ceil bit_floor bit_width countr_zero endian has_single_bit popcount",
    "bitset": "bitset",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "abs ceil cos exp floor fma fmax isfinite isinf isnan log log1p log2 nextafter pow sin sqrt tanh",
    "concepts": """constructible_from convertible_to default_initializable derived_from floating_point integral movable
        same_as signed_integral unsigned_integral""",
    "condition_variable": "condition_variable",
    "cstddef": "byte nullptr_t ptrdiff_t size_t to_integer",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "cstdio": "snprintf",
    "cstdlib": "abs getenv",
    "cstring": "memcmp memcpy memset",
    "deque": "deque erase_if",
    "exception": "current_exception exception exception_ptr rethrow_exception",
    "filesystem": "filesystem",
    "fstream": "ifstream ofstream",
    "functional": "function greater hash less less_equal",
    "future": "future future_error future_status promise",
    "initializer_list": "initializer_list",
    "ios": "ios streamsize",
    "istream": "istream streamsize",
    "iterator": "prev ssize",
    "limits": "numeric_limits",
    "list": "list",
    "locale": "locale",
    "map": "map erase_if",
    "memory": """addressof make_shared make_unique shared_ptr uninitialized_value_construct_n unique_ptr weak_ptr""",
    "mutex": "lock_guard mutex try_to_lock unique_lock",
    "new": "align_val_t bad_alloc nothrow",
    "numbers": "numbers",
    "numeric": "accumulate iota",
    "optional": "nullopt optional",
    "ostream": "ostream streamsize",
    "ranges": "ranges::range_value_t ranges::size ranges::sized_range",
    "set": "set",
    "shared_mutex": "shared_lock shared_mutex",
    "source_location": "source_location",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream",
    "stdexcept": "length_error logic_error runtime_error",
    "string": "erase_if getline string to_string",
    "string_view": "string_view",
    "system_error": "errc error_code generic_category system_error",
    "thread": "jthread this_thread thread",
    "tuple": "get tuple tuple_size_v",
    "type_traits": """conditional_t decay_t false_type integral_constant invoke_result_t is_arithmetic_v is_const_v
        is_empty_v is_enum_v is_pointer_v is_same_v is_trivially_copyable_v has_unique_object_representations_v
        make_unsigned_t remove_const_t remove_cvref_t remove_reference_t type_identity type_identity_t
        underlying_type_t""",
    "typeinfo": "type_info",
    "unordered_map": "erase_if unordered_map",
    "unordered_set": "unordered_set",
    "utility": """as_const declval exchange forward in_range integer_sequence make_integer_sequence move pair
        swap""",
    "variant": "get get_if holds_alternative monostate variant visit",
    "vector": "erase_if vector",
}
# What headers have besides names of std.
OTHERS = {
    "cerrno": r"\berrno\b",
    "compare": r"operator<=>",
    "cstddef": r"\boffsetof\b",
    "cstdint": r"\bU?INT\d+_(?:MAX|C)\b",
    "typeinfo": r"\btypeid\b",
}
HEADERS_OF = {}
for header, names in NAMES.items():
    for name in names.split():
        HEADERS_OF.setdefault(name, set()).add(header)


def problems_of(text):
    code = without_comments(text)
    included = set(re.findall(r"^#include <([a-z_]+)>", code, re.MULTILINE))
    uses = [(match[1], match.start()) for match in re.finditer(r"\bstd::((?:ranges::)?\w+)", code)]
    choices = {}  # headers of which one is needed: what needs it, and where first
    for name, at in uses:
        choices.setdefault(frozenset(HEADERS_OF.get(name, ())), (f"std::{name}", at))
    for header, pattern in OTHERS.items():
        if match := re.search(pattern, code):
            choices.setdefault(frozenset({header}), (match[0], match.start()))
    needed = set()
    for headers in sorted(choices, key=len):  # where several will do, one that is needed anyway
        name, at = choices[headers]
        line = code.count("\n", 0, at) + 1
        if not headers:
            yield line, f"{name}: say in tests/meta/includes.py which header declares it"
        elif not included & headers:
            yield line, f"{name} without <{'> or <'.join(sorted(headers))}>"
        elif not needed & headers:
            needed |= included & headers
    for header in sorted(included - needed):
        yield 1, f"<{header}> for nothing"


def problems(root):
    include = root / "include" / "foredraft"
    return [
        f"{file.relative_to(include)}:{line}: {what}"
        for file in sorted(include.rglob("*.hpp")) + sorted(include.rglob("*.cuh"))
        for line, what in problems_of(file.read_text())
    ]


if __name__ == "__main__":
    lines = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(lines) or "standard headers are those that are used")
    sys.exit(bool(lines))
