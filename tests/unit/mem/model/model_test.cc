#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ostream>

#include "machine.h"

// Random programs that map, register, bind, invalidate, end and look up, on the key table and on a simple
// reference, which must agree in every step. rapidcheck prints how to repeat a failure (RC_PARAMS="seed=N
// ...") and makes the program as short as it can.

namespace uroce::mem {

void showValue(const Command& command, std::ostream& to) {
  to << "{" << int{command.what};
  for (const uint32_t number : command.numbers) to << ", " << number;
  to << "}";
}

namespace {

rc::Gen<Command> any_command() {
  const auto number = rc::gen::inRange<uint32_t>(0, UINT32_MAX);
  return rc::gen::build<Command>(
      rc::gen::set(&Command::what, rc::gen::inRange<uint8_t>(0, UINT8_MAX)),
      rc::gen::set(&Command::numbers, rc::gen::container<std::array<uint32_t, 6>>(number)));
}

void expect_agreement(uint64_t bus_offset) {
  EXPECT_TRUE(rc::check([bus_offset] {
    const auto program = *rc::gen::container<std::vector<Command>>(any_command());
    Machine machine(bus_offset);
    for (const Command& command : program) {
      const std::string difference = machine.step(command);
      if (!difference.empty()) RC_FAIL(difference);
    }
  }));
}

TEST(KeyTableModel, RandomPrograms_ExpectWhatTheReferenceSays) { expect_agreement(0); }

TEST(KeyTableModel, WithTheBusElsewhere_ExpectTheSame) { expect_agreement(uint64_t{1} << 44); }

}  // namespace
}  // namespace uroce::mem
