"""The command line: the demo, and what an error looks like."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scar_gpu.cli import demo_corpus, main
from scar_gpu.cli.app import app
from scar_gpu.text import Document
from tests.text.word_embedder import WordEmbedder

TITLE = "Names, and all that they can be bound to in one way or another, assignment above all"
SENTENCES = "".join(f"The name n{i} is bound by assignment {i}. " for i in range(50))
TOPICS = [
    Document("loops", "Loops\n*****\n\nA loop repeats its body.\n\nBreak ends a loop.\n", "rst"),
    Document("names", f"{TITLE}\n{'*' * 90}\n\n" + SENTENCES, "rst"),
]


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[WordEmbedder]:
    """The demo over two tiny topics; the embedders it made."""
    made: list[WordEmbedder] = []

    def embedder() -> WordEmbedder:
        made.append(WordEmbedder())
        return made[-1]

    monkeypatch.setattr("scar_gpu.text.SentenceTransformerEmbedder", embedder)
    monkeypatch.setattr(demo_corpus, "python_topics", lambda: TOPICS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return made


def run(*arguments: str) -> list[str]:
    """The lines of a run that succeeds."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def numbers(lines: list[str], method: str) -> list[list[int]]:
    """Chunks, characters and spans of a method, per question and at last the sum."""
    rows = [line[len(method) :] for line in lines if line.startswith(method)]
    return [
        [int(number.replace(",", "")) for number in row.split()]
        for row in rows
        if row.split()[0].isdigit()
    ]


def test_the_demo_counts_what_each_method_retrieves(small_demo: list[WordEmbedder]) -> None:
    lines = run("demo", "What ends a loop?", "What binds a name?", "--k", "1", "--gamma", "-9")
    plain, window, scar = (numbers(lines, m) for m in ("top-1", "Window(+-1)", "SCAR(+-1)"))
    # "loops" is one chunk; "names" is long enough for a hit in the middle.
    assert plain[0] == [1, len(TOPICS[0].text), 1]
    assert window[1][0] > plain[1][0] == 1
    assert scar == window
    assert plain[2] == [a + b for a, b in zip(plain[0], plain[1], strict=True)]


def test_the_demo_shows_the_verdict_on_each_neighbour(small_demo: list[WordEmbedder]) -> None:
    (hit,) = [line for line in run("demo", "name", "--k", "1") if line.startswith("names ")]
    relevance, threshold = (float(x) for x in re.findall(r"\s(\d\.\d{3})(?=\s)", hit)[:2])
    assert threshold == pytest.approx(0.8 * relevance, abs=1e-3)
    verdicts = re.findall(r"(-?\d\.\d{3}) ([+-])", hit)
    assert verdicts
    assert all((float(s) > threshold) == (mark == "+") for s, mark in verdicts)


def test_the_demo_judges_by_the_options_given(small_demo: list[WordEmbedder]) -> None:
    for options, mark in (("--gamma=-9", "+"), ("--gamma=-9 --lam=9999", "-"), ("--gamma=9", "-")):
        lines = run("demo", "name", "--k", "1", *options.split())
        (hit,) = [line for line in lines if line.startswith("names ")]
        assert set(re.findall(r"\.\d{3} ([+=-])", hit)) == {mark}


def test_the_demo_marks_neighbours_that_are_hits(small_demo: list[WordEmbedder]) -> None:
    hits = [line for line in run("demo", "name", "--k", "9") if re.match(r"\w+ \d+\.\.\d+", line)]
    assert len(hits) > 3
    assert set(re.findall(r"\.\d{3} ([+=-])", " ".join(hits))) == {"="}


def test_the_demo_says_how_much_scar_saves(small_demo: list[WordEmbedder]) -> None:
    lines = run("demo", "assignment", "--k", "1", "--gamma", "1.5")
    plain, window, scar = (numbers(lines, m)[-1][0] for m in ("top-1", "Window(+-1)", "SCAR(+-1)"))
    assert scar == plain < window
    saved = f"{100 * (window - scar) / window:.0f} %"
    summary = " ".join(" ".join(lines[-2:]).split())
    assert f"SCAR(+-1) retrieves {saved} fewer chunks than Window(+-1)" in summary
    assert "as many chunks as plain top-1" in summary


def test_piped_output_is_100_columns_wide_and_without_colour(
    small_demo: list[WordEmbedder],
) -> None:
    lines = run("demo", "--window", "2", "--text")
    verdict = r" +(none|-?\d\.\d{3} [+=-])"
    hits = [line for line in lines if line.startswith(("names ", "loops ")) and ".." in line]
    assert len(hits) > 12
    assert all(re.search(verdict * 4 + " *$", line) for line in hits)
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in "".join(lines)
    assert sum(line.startswith("SCAR(+-2)") for line in lines) == len(demo_corpus.QUESTIONS) + 2


def test_a_second_demo_embeds_questions_only(
    small_demo: list[WordEmbedder], tmp_path: Path
) -> None:
    run("demo", "name")
    run("demo", "name")
    first, second = small_demo
    assert len(first.seen) > 1
    assert second.seen == ["name"] * (len(second.seen))
    run("demo", "name", "--no-cache")
    assert len(small_demo[2].seen) == len(first.seen)
    assert len(list((tmp_path / "scar_gpu").iterdir())) == 1


def test_the_demo_runs_where_nothing_can_be_kept(
    small_demo: list[WordEmbedder], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    result = CliRunner().invoke(app, ["demo", "name"])
    assert result.exit_code == 0
    assert "embeddings are not kept for the next run" in result.stderr
    assert "Sum of 1 questions" in result.stdout


def test_topics_that_repeat_a_longer_one_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    paragraphs = [f"Paragraph {i} says something that is longer than forty." for i in range(9)]
    topics = {
        "long": "\n\n".join(paragraphs[:6]),
        "part": "\n\n".join(paragraphs[2:5]),
        "half": "\n\n".join(paragraphs[4:9]),
        "tiny": "short",
    }
    monkeypatch.setattr(demo_corpus, "topics", topics)
    kept = demo_corpus.python_topics()
    assert [document.id for document in kept] == ["half", "long", "tiny"]
    assert demo_corpus.topic_count() == 4


def test_the_corpus_of_this_python_has_headings() -> None:
    from scar_gpu.text import headings

    documents = demo_corpus.python_topics()
    assert len(documents) > 40
    assert all(headings(document.text, document.format) for document in documents)


# Errors


def test_bad_input_is_one_sentence_and_exit_code_2(small_demo: list[WordEmbedder]) -> None:
    result = CliRunner().invoke(app, ["demo", " "])
    assert (result.exit_code, result.stdout.count("\n1. ")) == (2, 0)
    assert result.stderr == "scar-gpu: queries must not be empty, got ' ' at position 0\n"


def test_debug_shows_the_traceback(small_demo: list[WordEmbedder]) -> None:
    result = CliRunner().invoke(app, ["--debug", "demo", " "])
    assert isinstance(result.exception, ValueError)


@pytest.mark.parametrize("arguments", [["demo", "--k", "0"], ["demo", "--nothing"], ["unknown"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "scar_gpu.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "scar-gpu: typer must be installed: pip install 'scar_gpu[cli]'\n"
    )


def test_the_entry_point_runs_the_app(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scar-gpu", "--help"])
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out
