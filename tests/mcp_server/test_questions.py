"""Questions to the human, over a whole session: asked, answered, and taken back."""

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from codex_multitool.mcp_server.shell_tool import DEFINITION
from tests.mcp_server.conversation import Client, Json, run


class TestQuestion:
    async def question(self, client: Client) -> Json:
        message = await client.receive()
        assert message["method"] == "elicitation/create", message
        return message

    def told(self, answer: Json) -> str:
        found: str = answer["result"]["structuredContent"]["output"]
        return found

    def test_it_is_asked_while_the_call_runs(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            call = await client.begin_shell("ask git init .")
            question = await self.question(client)
            asked = question["params"]["message"]
            assert asked.startswith("Allow agent to run `/bin/git init .` in `/`?\n")
            await client.request("ping")
            content = {"reason": "go on"}
            await client.send(id=question["id"], result={"action": "accept", "content": content})
            answer = await client.receive()
            assert answer["id"] == call
            assert self.told(answer) == "accept|None|True"
            jsonschema.validate(answer["result"]["structuredContent"], DEFINITION["outputSchema"])

        run(scenario)

    @pytest.mark.parametrize(
        ("reply", "told"),
        [
            ({"result": {"action": "decline"}}, "decline|"),
            ({"result": {"action": "cancel"}}, "cancel|"),
            ({"result": {"action": "maybe"}}, "unavailable|the client's answer is neither"),
            ({"result": None}, "unavailable|the client's answer is neither"),
            (
                {"error": {"code": -32601, "message": "Method not found"}},
                "unavailable|the client could not ask: Method not found|True",
            ),
        ],
    )
    def test_every_answer_comes_back(self, reply: Json, told: str) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={"form": {}})
            await client.begin_shell("ask git")
            question = await self.question(client)
            await client.send(id=question["id"], **reply)
            assert self.told(await client.receive()).startswith(told)

        run(scenario)

    @pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
    def test_a_client_without_forms_is_not_asked(self, capabilities: Json) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(**capabilities)
            assert self.told(await client.shell("ask git")) == "unavailable|None|False"

        run(scenario)

    def test_each_gets_its_own_answer(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            calls = [await client.begin_shell(f"ask word{at}") for at in range(3)]
            questions = [await self.question(client) for _ in calls]
            actions = {"word0": "accept", "word1": "decline", "word2": "cancel"}
            assert len({question["id"] for question in questions}) == 3
            for question in reversed(questions):
                word = question["params"]["message"].split("`")[1].removeprefix("/bin/")
                await client.send(id=question["id"], result={"action": actions[word]})
            answers = [await client.receive() for _ in calls]
            told = {answer["id"]: self.told(answer).split("|")[0] for answer in answers}
            assert told == {call: actions[f"word{at}"] for at, call in enumerate(calls)}

        run(scenario)

    def test_answers_to_no_question_are_ignored(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            call = await client.begin_shell("ask git")
            question = await self.question(client)
            for number in ("server-77", 1, call, f"{question['id']}x"):
                await client.send(id=number, result={"action": "accept"})
            await client.request("ping")
            for action in ("decline", "accept"):
                await client.send(id=question["id"], result={"action": action})
            assert self.told(await client.receive()).startswith("decline")
            await client.request("ping")

        run(scenario)

    def test_nobody_who_answers_is_an_end_too_and_the_question_is_taken_back(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            await client.begin_shell("ask git")
            question = await self.question(client)
            taken_back = await client.receive()
            assert taken_back["method"] == "notifications/cancelled"
            assert taken_back["params"]["requestId"] == question["id"]
            told = "unavailable|nobody answered within 0.05 seconds|True"
            assert self.told(await client.receive()) == told

        run(scenario, patience=0.05)

    def test_with_the_call_it_is_taken_back(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            call = await client.begin_shell("ask git")
            question = await self.question(client)
            await client.send(method="notifications/cancelled", params={"requestId": call})
            taken_back = await client.receive()
            assert taken_back["method"] == "notifications/cancelled"
            assert taken_back["params"]["requestId"] == question["id"]
            await client.send(id=question["id"], result={"action": "accept"})
            await client.request("ping")

        run(scenario)

    def test_more_than_a_human_can_answer_are_not_asked(self) -> None:
        async def scenario(client: Client) -> None:
            await client.initialize(elicitation={})
            for _ in range(64):
                await client.begin_shell("ask git")
                await self.question(client)
            told = self.told(await client.shell("ask git"))
            assert told == "unavailable|64 questions are open already|True"

        run(scenario)
