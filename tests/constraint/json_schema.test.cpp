#include <foredraft/constraint/json_schema.hpp>

#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/grammar_text.hpp"

namespace fd = foredraft;

namespace {

struct Case {
  std::string schema;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

const std::vector<Case> kCases{
    {"true", {"1", "{\"a\":[]}", "null"}, {"x"}},
    {R"({"type":"object"})", {"{}", "{\"a\": {\"b\":1}}"}, {"[]", "1"}},
    {R"({"type":["integer","null"]})", {"1", "-20", "null"}, {"1.5", "\"1\""}},
    {R"({"type":"number"})", {"1", "-0.5e3"}, {"01", "true"}},
    {R"({"type":"integer","minimum":3,"exclusiveMaximum":120})",
     {"3", "99", "119"},
     {"2", "120", "-3", "3.0"}},
    {R"({"type":"string"})", {"\"\"", "\"a\\nb\""}, {"\"", "a"}},
    {R"({"type":"string","minLength":2,"maxLength":3})",
     {"\"ab\"", "\"a\\u00e9b\""},
     {"\"a\"", "\"abcd\""}},
    {R"({"type":"string","pattern":"^[a-c]+\"$"})",
     {R"("ab\"")"},
     {R"("ab"")", R"("d\"")", R"("\"")"}},
    {R"({"pattern":"b"})", {"\"b\"", "\"abc\"", "\"\\nb\""}, {"\"ac\""}},
    {R"({"format":"date"})",
     {"\"2024-02-28\"", "\"1999-12-31\""},
     {"\"2024-02-30\"", "\"2024-13-01\""}},
    {R"({"format":"date-time"})", {"\"2024-05-06T23:59:00.5+02:00\""}, {"\"2024-05-06\""}},
    {R"({"format":"uuid"})", {"\"01234567-89ab-cdef-0123-456789abcdef\""}, {"\"0123\""}},
    {R"({"format":"ipv4"})", {"\"255.0.10.199\""}, {"\"256.0.0.1\"", "\"1.2.3\""}},
    {R"({"format":"email"})",
     {"\"a.b+c@ex-ample.org\""},
     {"\"a@b\"", "\"@b.org\"", "\"a@b-.com\""}},
    {R"({"format":"duration"})",
     {"\"P3Y6M4DT12H30M5S\"", "\"PT36H\"", "\"P2W\"", "\"P1D\""},
     {"\"P\"", "\"PT\"", "\"P1YD\"", "\"P1Y2D\"", "\"1D\"", "\"P1WT1H\""}},
    {R"({"format":"hostname"})",
     {"\"www.ex-ample.org\"", "\"localhost\""},
     {"\"-a.org\"", "\"a..b\"", "\"a_b.org\"", "\"\""}},
    {R"({"format":"ipv6"})",
     {"\"::1\"", "\"::\"", "\"fe80::1\"", "\"1:2:3:4:5:6:7:8\"", "\"1:2:3:4:5:6::8\""},
     {"\"1:2:3\"", "\"12345::1\"", "\"1:2:3:4:5:6:7::8\"", "\":1\""}},
    {R"({"format":"uri"})",
     {"\"https://example.org\"", "\"http://a.b:80/c/d?e=f#g\""},
     {"\"example.org\"", "\"http://\"", "\"http://a b\""}},
    {R"({"type":"number","minimum":0,"maximum":1})",
     {"0", "1", "0.25", "1.000"},
     {"-0.1", "1.01", "2", "0.", "1e0"}},
    {R"({"type":"number","exclusiveMinimum":-2,"maximum":-1.0})",
     {"-1", "-1.99", "-1.5"},
     {"-2", "-2.0", "-0.5", "1.5"}},
    {R"({"type":"number","exclusiveMinimum":0})", {"0.001", "1", "77.5"}, {"0", "0.0", "-1"}},
    {R"({"const":{"a":[1,"\r"],"b":{}}})",
     {R"({"a":[1,"\r"],"b":{}})", R"({"a": [1, "\r"], "b": {}})",
      "{\n  \"a\": [1,\"\\r\"],\n  \"b\":{}}"},
     {R"({"a":[1],"b":{}})", R"({"b":{},"a":[1,"\r"]})"}},
    {R"({"enum":["red","green",1,null,{"a":[1]}]})",
     {"\"red\"", "1", "null", "{\"a\":[1]}"},
     {"\"blue\"", "2"}},
    {R"({"type":"string","enum":["red",1]})", {"\"red\""}, {"1"}},
    {R"({"const":"a\"b"})", {R"("a\"b")"}, {R"("ab")"}},
    {R"({"type":"array","items":{"type":"integer"}})",
     {"[]", "[1]", "[1, 2,3]"},
     {"[1,]", "[\"a\"]"}},
    {R"({"items":{"type":"null"},"minItems":2,"maxItems":3})",
     {"[null,null]", "[null,null,null]"},
     {"[]", "[null]", "[null,null,null,null]"}},
    {R"({"items":{"type":"null"},"maxItems":1})", {"[]", "[null]"}, {"[null,null]"}},
    {R"({"items":{"type":"null"},"minItems":1})", {"[null]", "[null,null,null]"}, {"[]"}},
    {R"({"maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
    {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":2})",
     {"[1,\"a\"]"},
     {"[1]", "[1,\"a\",2]", "[\"a\",1]"}},
    {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"maxItems":2})",
     {"[]", "[1]", "[1,null]"},
     {"[null]", "[1,null,null]", "[1,1]"}},
    {R"({"prefixItems":[{"type":"integer"}],"minItems":2})", {"[1,\"x\"]"}, {"[1]", "[\"x\",1]"}},
    {R"({"properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"type":"boolean"}},"required":["b"]})",
     {R"({"b":null})", R"({"a": 1, "b": null})", R"({"a":1,"b":null,"c":true})",
      R"({"b":null,"c":false})"},
     {"{}", R"({"a":1})", R"({"c":true,"b":null})", R"({"b":null,"d":1})", R"({,"b":null})",
      R"({"a":1,})"}},
    {R"({"properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
     {"{}", R"({"ab":null})", R"({"ab":null,"a":1,"abc":2})", R"({"x":1})", R"({"":1})"},
     {R"({"ab":1})", R"({"x":1,"ab":1})", R"({"x":"y"})", R"({"a\u0062":1})"}},
    {R"({"properties":{"a":true},"additionalProperties":false})",
     {"{}", R"({"a":[1]})"},
     {R"({"b":1})"}},
    {R"({"type":"object","required":["x"]})",
     {R"({"x":1})", R"({"x":1,"y":2})"},
     {"{}", R"({"y":2})"}},
    {R"({"anyOf":[{"type":"string"},{"type":"integer"}]})", {"\"a\"", "1"}, {"null"}},
    {R"({"type":"object","properties":{"a":{"type":"null"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]})",
     {R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"},
     {"{}", R"({"a":1})"}},
    {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {"\"a\"", "1"}, {"null"}},
    {R"({"allOf":[{"type":"integer","minimum":1},{"maximum":3}]})", {"1", "3"}, {"0", "4"}},
    {R"({"allOf":[{"$ref":"#/$defs/a"},{"required":["y"]}],"$defs":{"a":{"properties":{"x":{"type":"null"}},"required":["x"]}}})",
     {R"({"x":null,"y":1})"},
     {R"({"x":null})"}},
    {R"({"$ref":"#/$defs/node","$defs":{"node":{"properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
     {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
    {R"({"title":"t","description":"d","default":1,"type":"null","$schema":"x","$comment":"y"})",
     {"null"},
     {"1"}},
    {R"({"anyOf":[false,{"type":"null"}]})", {"null"}, {"1"}},
};

std::string refusal(const std::string& schema) {
  try {
    fd::Automaton{fd::json_schema_grammar(schema)};
  } catch (const fd::Error& error) {
    CHECK(error.code() == fd::ErrorCode::kInvalidConstraint);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a schema's grammar has the texts that it should have") {
  for (const Case& one : kCases) {
    INFO(one.schema);
    Texts texts(fd::json_schema_grammar(one.schema));
    for (const std::string& text : one.accepted) {
      INFO(text);
      CHECK(texts.accepts(text));
    }
    for (const std::string& text : one.refused) {
      INFO(text);
      CHECK_FALSE(texts.accepts(text));
    }
  }
}

TEST_CASE("many members that need not be there take a grammar of their number, not of its power") {
  std::string schema = R"({"properties":{)";
  for (int i = 0; i < 200; ++i) {
    schema += (i == 0 ? "\"m" : ",\"m") + std::to_string(i) + R"(":{"type":"null"})";
  }
  Texts texts(fd::json_schema_grammar(schema + "}}"));
  CHECK(texts.accepts(R"({"m3":null,"m150":null})"));
  CHECK_FALSE(texts.begins(R"({"m150":null,"m3)"));
}

TEST_CASE("what is not supported is refused by its name, and its place") {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"object","patternProperties":{}})", "`patternProperties`"},
      {R"({"properties":{"a":{"multipleOf":2}}})", "#/properties/a"},
      {R"({"not":{}})", "`not`"},
      {R"({"uniqueItems":true})", "`uniqueItems`"},
      {R"({"if":{}})", "`if`"},
      {R"({"type":"number","minimum":0.5})", "`minimum` 0.5"},
      {R"({"format":"regex"})", "`regex`"},
      {R"({"pattern":"(a)\\1"})", "back-reference"},
      {R"({"pattern":"a","minLength":2})", "two of"},
      {R"({"enum":[1],"minimum":1})", "beside `enum`"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "may fit"},
      {R"({"oneOf":[{"const":1},{"const":1.0}]})", "may fit"},
      {R"({"oneOf":[{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}]})", "may fit"},
      {R"({"$ref":"#/nowhere"})", "reference to nothing"},
      {R"({"$ref":"#/$defs/a","type":"null","$defs":{"a":true}})", "beside `$ref`"},
      {R"({"$dynamicRef":"#x"})", "`$dynamicRef`"},
      {R"({"type":"strin"})", "`strin`"},
      {R"({"minLength":-1})", "`minLength`"},
      {R"({"minItems":1.5})", "`minItems`"},
      {R"({"allOf":[]})", "empty"},
      {R"({"allOf":[{"prefixItems":[{"type":"null"}]}],"items":{"type":"integer"}})",
       "of another part"},
      {R"({"properties":{"a":3}})", "something else"},
      {R"([])", "something else"},
      {R"({"type":"string")", "goes on strangely"},
      {R"(false)", "no text can satisfy"},
      {R"({"properties":{"a":false},"required":["a"]})", "no text can satisfy"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "no text can satisfy"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text can satisfy"},
      {R"({"$ref":"#"})", "lead on and on"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "begins with itself"},
      {R"({"allOf":[{"$ref":"#"}],"type":"null"})", "without an end"},
      {R"({"type":"array","items":{"type":"null"},"minItems":3,"maxItems":2})",
       "no text can satisfy"},
      {R"({"properties":{"a":true},"additionalProperties":false,"required":["b"]})",
       "no text can satisfy"},
  };
  for (const auto& [schema, word] : cases) {
    INFO(schema << ": " << refusal(schema));
    CHECK(refusal(schema).find(word) != std::string::npos);
  }
}
