#include "apps/decode/rules.h"

#include <array>

namespace uroce::decode {
namespace {

struct Described {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<Described, kRuleCount> kRules{{
#define X(name, id, text) {id, text},
    UROCE_DECODE_RULES(X)
#undef X
}};

}  // namespace

std::string_view name_of(Rule rule) { return kRules[static_cast<size_t>(rule)].name; }
std::string_view text_of(Rule rule) { return kRules[static_cast<size_t>(rule)].text; }

}  // namespace uroce::decode
