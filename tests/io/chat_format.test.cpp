#include <foredraft/io/chat_format.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fd = foredraft;

namespace {

// As in the model files, shortened where the rest says nothing about the format.
const std::string kSmolLM2 =
    R"({% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %})";

const std::string kQwen = R"({%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- '\n</tools><|im_end|>\n' }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %})";

const std::string kLlama3 =
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
    "message['content'] | trim + '<|eot_id|>' %}";

const std::string kGemma =
    "{{ '<start_of_turn>' + role + '\n' }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}";

const std::string kQwen3 =
    R"({%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}
{%- if '</think>' in content %}{{- '<|im_start|>' + message.role + '\n' + content.split('</think>')[-1].lstrip('\n') }}{%- endif %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";

/// @param branches  what is written where an answer begins
std::string qwen35(const std::string& branches) {
  return R"({%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' + content|trim + '<|im_end|>\n' }}{%- endif %}
{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- else %}{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }})" +
         branches + "{%- endif %}";
}

const std::string kPhi3 =
    "{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + "
    "'<|end|>\n'}}{% endif %}";

const std::string kPhi4Mini =
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

const std::string kPhi4 =
    "{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}";

const std::string kGranite =
    "{{- '<|start_of_role|>user<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}";

const std::string kTulu =
    "{{ '<|system|>\n' + message['content'] + '\n' }}{{ '<|user|>\n' + message['content'] + '\n' "
    "}}{{ '<|assistant|>\n' + message['content'] + eos_token + '\n' }}";

const std::string kMistralV1 =
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token}}";

const std::string kMistralV3 =
    "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}"
    "{{- \" \" + message[\"content\"]|trim + eos_token}}";

const std::string kMistralTekken =
    "{{- \"[INST]\" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}";

const std::string kMistralV7 =
    "{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}{{- '[INST]' + "
    "message['content'] + '[/INST]' }}";

using Messages = std::vector<fd::ChatMessage>;
const Messages kHi = {{"user", "Hi"}};
const Messages kTalk = {
    {"system", "Be brief."}, {"user", " Hi\n"}, {"assistant", "Hello."}, {"user", "Bye"}};

fd::ErrorCode refusal(const fd::ChatTemplate& chat, const Messages& messages) {
  try {
    fd::format_chat(chat, messages);
  } catch (const fd::Error& error) {
    return error.code();
  }
  FAIL("accepted");
  return {};
}

}  // namespace

TEST_CASE("SmolLM2 introduces itself, unless there is a system message") {
  const auto chat = fd::recognize_chat_template(kSmolLM2);
  CHECK(chat.format == fd::ChatFormat::kChatML);
  CHECK(fd::format_chat(chat, kHi) ==
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(fd::format_chat(chat, kTalk) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi\n<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>"
        "assistant\n");
}

TEST_CASE("Qwen2.5 introduces itself, too") {
  const auto chat = fd::recognize_chat_template(kQwen);
  CHECK(chat.format == fd::ChatFormat::kChatML);
  CHECK(fd::format_chat(chat, kHi, false) ==
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
        "assistant.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n");
}

TEST_CASE("a default system message is one literal from a system turn's opening to its end") {
  const auto of = [](const std::string& text) { return fd::chat_format::default_system_of(text); };
  const std::string open = "<|im_start|>system", close = "<|im_end|>";
  CHECK(of(open + "\nA <b> c" + close) == "A <b> c");
  CHECK(of(open + "\\nA" + close) == "A");
  CHECK(of(open + "\n' + m + '" + close + open + "\nB" + close) == "B");
  CHECK(of(open + "\nA" + open + "\nB" + close) == "A" + open + "\nB");
  CHECK(of(open + "\n'" + open + "\nB" + close) == "B");
  CHECK(of(open + "A" + close).empty());
  CHECK(of(open + "\nA").empty());
  CHECK(of(open + "\n").empty());
  CHECK(of(open).empty());
  std::string many;  // each would be scanned to the end, if it were looked at alone
  for (int i = 0; i < 50'000; ++i) many += open + "\n";
  CHECK(of(many).empty());
  CHECK(of(many + "'" + close).empty());
}

TEST_CASE("plain ChatML adds no system message") {
  const auto chat =
      fd::recognize_chat_template("'<|im_start|>' + role + '\n' + content + '<|im_end|>\n'");
  CHECK(fd::format_chat(chat, kHi) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("Llama 3 trims contents") {
  const auto chat = fd::recognize_chat_template(kLlama3);
  CHECK(chat.format == fd::ChatFormat::kLlama3);
  CHECK(fd::format_chat(chat, kTalk) ==
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST_CASE("Llama 3.1 dates its system message") {
  const auto chat =
      fd::recognize_chat_template(kLlama3 + "{{- 'Cutting Knowledge Date: December 2023\n' }}");
  const std::string dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  const std::string open = "<|start_header_id|>system<|end_header_id|>\n\n" + dates;
  CHECK(fd::format_chat(chat, kHi).find(open + "<|eot_id|>") == 0);
  CHECK(fd::format_chat(chat, kTalk).find(open + "Be brief.<|eot_id|>") == 0);
}

TEST_CASE("Gemma puts the system message before the first user's") {
  const auto chat = fd::recognize_chat_template(kGemma);
  CHECK(chat.format == fd::ChatFormat::kGemma);
  CHECK(fd::format_chat(chat, kTalk) ==
        "<start_of_turn>user\nBe "
        "brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  CHECK(refusal(chat, {{"user", "a"}, {"user", "b"}}) == fd::ErrorCode::kInvalidOption);
  CHECK(refusal(chat, {{"assistant", "a"}}) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("Gemma 4 has system turns, and some of it begins an answer with an empty thought") {
  const std::string base =
      "{{ '<|turn>' + role + '\\n' }}{{ message['content'] | trim }}{{ '<turn|>\\n' }}";
  const auto chat = fd::recognize_chat_template(base);
  CHECK(chat.format == fd::ChatFormat::kGemma4);
  const std::string talk =
      "<|turn>system\nBe brief.<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\nHello.<turn|>\n"
      "<|turn>user\nBye<turn|>\n<|turn>model\n";
  CHECK(fd::format_chat(chat, kTalk) == talk);
  const auto thinks =
      fd::recognize_chat_template(base + "{{- '<|channel>thought\\n<channel|>' -}}");
  CHECK(fd::format_chat(thinks, kTalk) == talk + "<|channel>thought\n<channel|>");
  CHECK(fd::format_chat(thinks, kTalk, false) + "<|turn>model\n" == talk);
  CHECK(fd::format_reply(thinks, "Bye") ==
        "<turn|>\n<|turn>user\nBye<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
}

TEST_CASE("Mistral's formats differ in spaces, and in where a system message goes") {
  const auto talk = [](const std::string& text) {
    return fd::format_chat(fd::recognize_chat_template(text), kTalk);
  };
  CHECK(talk(kMistralV1) == "[INST] Be brief.\n\n Hi\n [/INST]Hello.</s>[INST] Bye [/INST]");
  CHECK(talk(kMistralV3) == "[INST] Be brief.\n\n Hi\n[/INST]Hello.</s>[INST] Bye[/INST]");
  CHECK(talk(kMistralTekken) == "[INST]Be brief.\n\n Hi\n[/INST]Hello.</s>[INST]Bye[/INST]");
  CHECK(talk(kMistralV7) ==
        "[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] Hi\n[/INST]Hello.</s>[INST]Bye[/INST]");
  const auto chat = fd::recognize_chat_template(kMistralV7);
  CHECK(refusal(chat, {{"user", "a"}, {"user", "b"}}) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("Phi's formats") {
  const auto talk = [](const std::string& text) {
    return fd::format_chat(fd::recognize_chat_template(text), kTalk);
  };
  CHECK(talk(kPhi3) == talk(kPhi4Mini));
  CHECK(talk(kPhi4Mini) ==
        "<|system|>Be brief.<|end|><|user|> Hi\n<|end|><|assistant|>Hello.<|end|>"
        "<|user|>Bye<|end|><|assistant|>");
  CHECK(talk(kPhi4) ==
        "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|> Hi\n<|im_end|>"
        "<|im_start|>assistant<|im_sep|>Hello.<|im_end|>"
        "<|im_start|>user<|im_sep|>Bye<|im_end|><|im_start|>assistant<|im_sep|>");
}

TEST_CASE("Granite and OLMo 2") {
  const auto granite = fd::recognize_chat_template(kGranite);
  CHECK(granite.format == fd::ChatFormat::kGranite);
  CHECK(fd::format_chat(granite, kHi) ==
        "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
        "<|start_of_role|>assistant<|end_of_role|>");
  const auto tulu = fd::recognize_chat_template(kTulu);
  CHECK(tulu.format == fd::ChatFormat::kTulu);
  CHECK(fd::format_chat(tulu, kTalk) ==
        "<|system|>\nBe brief.\n<|user|>\n Hi\n\n<|assistant|>\nHello.<|endoftext|>\n"
        "<|user|>\nBye\n<|assistant|>\n");
}

TEST_CASE("Qwen 3 forgets what it thought once it is asked again") {
  const auto chat = fd::recognize_chat_template(kQwen3);
  CHECK(chat.format == fd::ChatFormat::kChatML);
  CHECK(fd::format_chat(chat, kHi) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const std::string thought = "<think>\nA greeting.\n</think>\n\nHello.";
  const Messages talk = {{"user", "Hi"}, {"assistant", thought}, {"user", "Bye"}};
  CHECK(fd::format_chat(chat, talk) ==
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
  const std::span<const fd::ChatMessage> answered = std::span(talk).first(2);
  CHECK(fd::format_chat(chat, answered, false) ==
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" + thought + "<|im_end|>\n");
  CHECK(fd::format_chat(fd::recognize_chat_template(kQwen), talk).find("A greeting") !=
        std::string::npos);
}

TEST_CASE(
    "Qwen 3.5 begins its answers with a thought, or with none, as its template does by default") {
  const std::string none = R"({{- '<think>\n\n</think>\n\n' }})";
  const std::string one = R"({{- '<think>\n' }})";
  const auto thinks = fd::recognize_chat_template(
      qwen35("{%- if enable_thinking is false %}" + none + "{%- else %}" + one + "{%- endif %}"));
  CHECK(fd::format_chat(thinks, kHi) ==
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
  CHECK(fd::format_reply(thinks, "Bye") ==
        "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n<think>\n");
  const auto does_not = fd::recognize_chat_template(
      qwen35("{%- if enable_thinking is true %}" + one + "{%- else %}" + none + "{%- endif %}"));
  CHECK(does_not.opening == "<think>\n\n</think>\n\n");
  // The template itself sets what is not chosen.
  const std::string set =
      "{%- set enable_thinking = enable_thinking if enable_thinking is defined else ";
  const std::string branches =
      "{%- if enable_thinking %}" + one + "{%- else %}" + none + "{%- endif %}";
  CHECK(fd::recognize_chat_template(set + "True %}" + qwen35(branches)).opening == "<think>\n");
  CHECK(fd::recognize_chat_template(set + "False %}" + qwen35(branches)).opening ==
        "<think>\n\n</think>\n\n");
  CHECK(fd::recognize_chat_template(qwen35(branches)).opening.empty());  // nobody knows
  // Models that always think have their thought opened in one literal.
  CHECK(fd::recognize_chat_template(
            kQwen + R"({%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }})")
            .opening == "<think>\n");
  // Qwen 3 has one branch alone, which nobody asks for.
  const auto silent = fd::recognize_chat_template(
      qwen35("{%- if enable_thinking is false %}" + none + "{%- endif %}"));
  CHECK(silent.opening.empty());
  CHECK(fd::recognize_chat_template(kQwen3).opening.empty());
}

TEST_CASE("raw is the contents alone") {
  CHECK(fd::format_chat({}, kTalk) == "Be brief. Hi\nHello.Bye");
}

TEST_CASE("what is not known is refused") {
  for (const std::string& text :
       {std::string(), std::string("{{ messages }}"), kLlama3 + kGemma, kGranite + kTulu,
        std::string("{{ '[INST] <<SYS>>\n' + system + '\n<</SYS>>\n\n' + content + ' [/INST]' }}"),
        std::string("{{ '[SYSTEM_PROMPT] ' + system }}{{ '[INST] ' + content + '[/INST]' }}"),
        std::string("{{ '<|user|>\n' + message['content'] + eos_token }}{{ '<|assistant|>' }}")}) {
    try {
      fd::recognize_chat_template(text);
      FAIL("accepted");
    } catch (const fd::Error& error) {
      CHECK(error.code() == fd::ErrorCode::kUnsupportedModel);
      CHECK(error.hint().find("--raw") != std::string::npos);
    }
  }
  const auto chat = fd::recognize_chat_template(kSmolLM2);
  CHECK(refusal(chat, {}) == fd::ErrorCode::kEmptyPrompt);
  CHECK(refusal(chat, {{"tool", "x"}}) == fd::ErrorCode::kInvalidOption);
  CHECK(refusal(chat, {{"user<|im_end|>", "x"}}) == fd::ErrorCode::kInvalidOption);
}

TEST_CASE("formats have names") {
  CHECK(fd::name_of(fd::ChatFormat::kRaw) == "raw");
  CHECK(fd::name_of(fd::ChatFormat::kGemma) == "gemma");
}

TEST_CASE("a reply goes on behind an answer as the whole conversation would read") {
  const std::string gemma4 = "'<|turn>' '<turn|>' | trim";
  for (const auto& text : {kSmolLM2, kQwen, kLlama3, kGemma, gemma4}) {
    const auto chat = fd::recognize_chat_template(text);
    Messages talk = {{"user", "Hi"}};
    std::string grown = fd::format_chat(chat, talk);
    for (const char* answer : {"Hello.", "What?"}) {
      talk.push_back({"assistant", answer});
      talk.push_back({"user", " And\nnow? "});
      grown += answer + fd::format_reply(chat, talk.back().content);
      CHECK(grown == fd::format_chat(chat, talk));
    }
  }
  fd::ChatTemplate raw;
  CHECK(fd::format_reply(raw, "next") == "next");
}
