#include <foredraft/constraint/schema_document.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/throws.hpp"

namespace fd = foredraft;

namespace {
fd::JsonValue json(const std::string& text) { return fd::JsonReader::read(text, "a test"); }
std::string merged(const std::string& a, const std::string& b) {
  return fd::json_text(fd::SchemaDocument::merged(json(a), json(b), "#"));
}
bool disjoint(const std::string& a, const std::string& b) {
  return fd::SchemaDocument("{}").disjoint(json(a), json(b));
}
template <typename F>
bool refused(F&& f) {
  return code_of(f) == fd::ErrorCode::kInvalidConstraint;
}
}  // namespace

TEST_CASE("references lead into the document") {
  const fd::SchemaDocument document(
      R"({"$defs":{"a/b":{"type":"null"},"c~":[true,{"$ref":"#/$defs/a~1b"}],"loop":{"$ref":"#/$defs/loop"}}})");
  CHECK(document.at("#").find("$defs") != nullptr);
  CHECK(document.at("#/$defs/a~1b").find("type")->text == "null");
  CHECK(document.at("#/%24defs/c~0/1").find("$ref") != nullptr);
  CHECK(document.resolved(document.at("#/$defs/c~0/1")).find("type") != nullptr);
  CHECK(refused([&] { document.at("#/$defs/x"); }));
  CHECK(refused([&] { document.at("#/$defs/c~0/2"); }));
  CHECK(refused([&] { document.at("other.json"); }));
  CHECK(refused([&] { document.at("#anchor"); }));
  CHECK(refused([&] { document.resolved(document.at("#/$defs/loop")); }));
  const fd::JsonValue beside = json(R"({"$ref":"#","minLength":2})");
  CHECK(refused([&] { document.resolved(beside); }));
}

TEST_CASE("schemas are put together") {
  CHECK(merged(R"({"minLength":2})", R"({"minLength":5,"maxLength":9})") ==
        R"({"minLength":5,"maxLength":9})");
  CHECK(merged(R"({"type":["string","number"]})", R"({"type":["integer","null"]})") ==
        R"({"type":["integer"]})");
  CHECK(merged(R"({"required":["a"]})", R"({"required":["b","a"]})") ==
        R"({"required":["a","b"]})");
  CHECK(merged(R"({"enum":[1,2]})", R"({"enum":[2,3]})") == R"({"enum":[2]})");
  CHECK(merged(R"({"properties":{"a":{"minimum":1}}})",
               R"({"properties":{"a":{"maximum":2},"b":true}})") ==
        R"({"properties":{"a":{"allOf":[{"minimum":1},{"maximum":2}]},"b":true}})");
  CHECK(merged("true", R"({"type":"null"})") == R"({"type":"null"})");
  CHECK(merged("false", "true") == "false");
  CHECK(refused([] { merged(R"({"pattern":"a"})", R"({"pattern":"b"})"); }));
  CHECK(refused([] { merged(R"({"type":"string"})", R"({"type":"null"})"); }));
  // Under the first, b is forbidden.
  CHECK(refused([] {
    merged(R"({"properties":{"a":true},"additionalProperties":false})",
           R"({"properties":{"b":true}})");
  }));
}

TEST_CASE("schemas that no value fits both of are told") {
  CHECK(disjoint(R"({"type":"string"})", R"({"type":["null","array"]})"));
  CHECK_FALSE(disjoint(R"({"type":"integer"})", R"({"type":"number"})"));
  CHECK_FALSE(disjoint(R"({"type":"string"})", R"({"minLength":3})"));
  CHECK(disjoint(R"({"const":1})", R"({"enum":[2,3]})"));
  CHECK_FALSE(disjoint(R"({"const":2})", R"({"enum":[2,3]})"));
  const std::string cat = R"({"properties":{"kind":{"const":"cat"}},"required":["kind"]})";
  CHECK(disjoint(cat, R"({"properties":{"kind":{"const":"dog"}},"required":["kind"]})"));
  CHECK_FALSE(disjoint(cat, R"({"properties":{"kind":{"const":"dog"}}})"));
  CHECK(disjoint("false", "true"));
  CHECK_FALSE(disjoint("true", R"({"const":1})"));
}

TEST_CASE("numbers and types of keywords are held to what they may be") {
  CHECK(fd::SchemaDocument::integer(json("-12"), "minimum") == -12);
  CHECK(refused([] { fd::SchemaDocument::integer(json("1.5"), "minimum"); }));
  CHECK(refused([] { fd::SchemaDocument::integer(json("\"1\""), "minimum"); }));
  CHECK(refused([] { fd::SchemaDocument::integer(json("99999999999999999999"), "minimum"); }));
  CHECK(refused([] { fd::SchemaDocument::types(json("\"text\"")); }));
  CHECK(refused([] { fd::SchemaDocument::types(json("[]")); }));
}
