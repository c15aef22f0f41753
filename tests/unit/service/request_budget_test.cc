#include "service/request_budget.h"

#include <gtest/gtest.h>

#include "service/user_accounts.h"

namespace uroce::service {
namespace {

using Answer = RequestBudget::Answer;
using host::MessageType;

constexpr Instant kNow{5'000'000'000};

TEST(RequestBudget, OneRound_ExpectSoMuchAndTheRestInTheNext) {
  RequestBudget budget;
  int64_t read = 0;
  for (; budget.ask(1, kNow) == Answer::kRead; ++read) budget.charge(cost_of(MessageType::kWhose), kNow);
  EXPECT_EQ(read, RequestBudget::kRound);
  EXPECT_EQ(budget.ask(1, kNow), Answer::kNextRound);
  EXPECT_EQ(budget.ask(2, kNow), Answer::kRead);
}

TEST(RequestBudget, WhatCostsMuch_ExpectSoManyRoundsWithoutTheUser) {
  RequestBudget budget;
  ASSERT_EQ(budget.ask(1, kNow), Answer::kRead);
  budget.charge(5 * RequestBudget::kRound, kNow);
  for (uint64_t round = 1; round < 5; ++round)
    EXPECT_EQ(budget.ask(round, kNow), Answer::kNextRound) << round;
  EXPECT_EQ(budget.ask(6, kNow), Answer::kRead);
}

TEST(RequestBudget, RoundsOfOthers_ExpectNoMoreThanOneRoundSavedUp) {
  RequestBudget budget;
  ASSERT_EQ(budget.ask(1000, kNow), Answer::kRead);
  budget.charge(RequestBudget::kRound, kNow);
  EXPECT_EQ(budget.ask(1000, kNow), Answer::kNextRound);
}

TEST(RequestBudget, TheRateIsUsedUp_ExpectAPauseAndThenAReadOfSome) {
  RequestBudget budget;
  uint64_t round = 0;
  int64_t read = 0;
  while (budget.ask(++round, kNow) == Answer::kRead) {
    budget.charge(1, kNow);
    ++read;
  }
  EXPECT_EQ(read, RequestBudget::kBurst);
  EXPECT_EQ(budget.ask(++round, kNow), Answer::kPaused);
  const Instant ready = budget.ready_at();
  EXPECT_EQ(ready - kNow, RequestBudget::kEach * RequestBudget::kPause);
  EXPECT_EQ(budget.ask(++round, ready - nanoseconds(1)), Answer::kPaused);
  EXPECT_EQ(budget.ask(++round, ready), Answer::kRead);
  EXPECT_FALSE(budget.full(ready));
  EXPECT_TRUE(budget.full(kNow + RequestBudget::kEach * RequestBudget::kBurst));
}

TEST(UserAccounts, OneThatComesAgain_ExpectItsDebts) {
  UserAccounts accounts;
  UserAccount& first = accounts.open(7);
  first.budget.charge(100, kNow);
  first.status = std::make_shared<const std::string>("text");
  accounts.close(first);
  accounts.forget_idle(kNow);
  UserAccount& again = accounts.open(7);
  EXPECT_EQ(&again, &first);
  EXPECT_EQ(again.status, nullptr) << "texts are those of connected users";
  accounts.forget_idle(kNow + seconds(1));
  EXPECT_EQ(accounts.count(), 1u) << "connected";
  accounts.close(again);
  accounts.forget_idle(kNow + seconds(1));
  EXPECT_EQ(accounts.count(), 0u);
}

}  // namespace
}  // namespace uroce::service
