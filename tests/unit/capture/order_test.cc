#include "capture/order.h"

#include <gtest/gtest.h>

namespace uroce::capture {
namespace {

TEST(Order, TextAndBack_ExpectTheSame) {
  Order order;
  order.scope = {.device = "uroce0", .queue_pair = QpNumber{17}, .client = 4711};
  order.opcode = "READ";
  order.direction = Direction::kIn;
  order.snap_bytes = 256;
  const auto again = parse_order(to_text(order));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, order);
  EXPECT_EQ(*parse_order("capture,snaplen=0,qp=0x11"),
            (Order{.scope = {.queue_pair = QpNumber{17}}, .snap_bytes = kSnapMax}));
  EXPECT_EQ(*parse_order("capture"), Order());
}

TEST(Order, WhatIsWrong_ExpectItsKey) {
  for (const auto& [text, key] : {std::pair{"capture,qp=16777216", "qp: "},
                                  {"capture,qp=", "qp: "},
                                  {"capture,qp=0", "qp: "},
                                  {"capture,qp=0x", "qp: "},
                                  {"capture,qp=-1", "qp: "},
                                  {"capture,qp=17,qp=18", "qp: given twice"},
                                  {"capture,client=0", "client: "},
                                  {"capture,opcode=WALK", "opcode: "},
                                  {"capture,direction=up", "direction: "},
                                  {"capture,snaplen=63", "snaplen: "},
                                  {"capture,snaplen=9999", "snaplen: "},
                                  {"capture,loss=1%", "loss: "},
                                  {"capture,qp", "\"qp\": "},
                                  {"capture,device=", "device: "},
                                  {"capture,,", "\"\": "},
                                  {"captured", "no order"},
                                  {"loss=1%", "no order"}}) {
    const auto order = parse_order(text);
    ASSERT_FALSE(order) << text;
    EXPECT_TRUE(order.error().message.starts_with(key)) << order.error().message;
  }
}

TEST(Order, Opcodes_ExpectThoseWithThePartInLettersOfEitherCase) {
  EXPECT_EQ(opcodes_named("RC SEND Only").count(), 6u);
  EXPECT_TRUE(opcodes_named("read request")[0x0C]);
  EXPECT_FALSE(opcodes_named("read request")[0x0D]);
  EXPECT_EQ(opcodes_named("cnp").count(), 1u);
  EXPECT_TRUE(opcodes_named("undefined").none());
}

}  // namespace
}  // namespace uroce::capture
