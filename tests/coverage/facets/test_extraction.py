"""What a question requires, read from its words."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage.facets import extract_facets, key_terms, resolve_times
from ragtrace.types import Facet

TODAY = date(2024, 5, 20)


def found(question: str, today: date | None = TODAY) -> list[tuple[str, str]]:
    """Kind and value of each facet."""
    return [(facet.kind, facet.value) for facet in extract_facets(question, today=today)]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What changed before 2023?", [("time", "before 2023")]),
        ("Who wrote The Old Man and the Sea?", [("entity", "The Old Man and the Sea")]),
        ("What was held in Salomon v A Salomon & Co Ltd?", [("entity", "Salomon v A Salomon & Co Ltd")]),
        ("Is vitamin D toxic above 4000 IU a day?", [("entity", "vitamin D"), ("quantity", "above 4000 IU")]),
        ("What has applied since May 2024 in Jordan?", [("time", "since May 2024"), ("jurisdiction", "Jordan")]),
        ("What did Jordan Smith say?", [("entity", "Jordan Smith")]),
        (
            "What is the Irish Home Plus limit as of March 2024?",
            [("jurisdiction", "Irish"), ("entity", "Home Plus"), ("time", "March 2024")],
        ),
        ("Is EUR 2.500 covered in Ireland?", [("quantity", "EUR 2.500"), ("jurisdiction", "Ireland")]),
        ("What does the 10-K FY2018 of Microsoft say?",
         [("entity", "10-K"), ("time", "FY2018"), ("entity", "Microsoft")]),
        ("What changed in Kubernetes between 1.27 and 1.29?",
         [("entity", "Kubernetes"), ("version", "between 1.27 and 1.29")]),
        ("Is Postgres 14 or later needed?", [("entity", "Postgres"), ("version", "14 or later")]),
        ("Is Level 14 or higher needed?", [("entity", "Level")]),
        ("How do I reset a Siemens LOGO! 8?", [("entity", "Siemens LOGO")]),
        ("Does v3 or later of FastAPI support Pydantic >=2.1,<3?",
         [("version", "v3 or later"), ("entity", "FastAPI"), ("entity", "Pydantic"), ("version", ">=2.1,<3")]),
        ("How do I set max_connections in PostgreSQL 14?",
         [("entity", "max_connections"), ("entity", "PostgreSQL 14")]),
        ("Explain CVE-2024-1234 and RFC 7231 for the X-200",
         [("entity", "CVE-2024-1234"), ("entity", "RFC 7231"), ("entity", "X-200")]),
        ("Is the limit under $500 for at least 30 days?",
         [("quantity", "under $500"), ("quantity", "at least 30 days")]),
        ("Who is the CEO of Bank of America?", [("entity", "Bank of America")]),
        ("who won the cup in brazil in 2014", [("jurisdiction", "brazil"), ("time", "2014")]),
        ("where can i buy turkey and china plates", []),
        ("How do I file a claim?", []),
        ('What does "escape of water" mean?', [("entity", "escape of water")]),
        ("WHAT IS THE VAT RATE IN GERMANY IN 2024?", [("jurisdiction", "GERMANY"), ("time", "2024")]),
        ("Since I moved to the EU, which rules hold?", [("jurisdiction", "EU")]),
        ("What runs on Python 3.11 here?", [("entity", "Python"), ("version", "3.11")]),
        ("Wie hoch war der Umsatz letztes Jahr in Deutschland?",
         [("time", "letztes Jahr"), ("jurisdiction", "Deutschland")]),
        ("Quel était le taux en mars 2023 en Allemagne ?", [("time", "mars 2023"), ("jurisdiction", "Allemagne")]),
        ("2023年の日本の税率は?", [("time", "2023年"), ("jurisdiction", "日本")]),
        ("ما هي ضريبة القيمة المضافة في مصر 2023؟", [("jurisdiction", "مصر"), ("time", "2023")]),
        ("What were the risks in Tesla's 10-K?", [("entity", "Tesla"), ("entity", "10-K")]),
        ("Does the Siemens S7-1200 PLC overheat?", [("entity", "Siemens S7-1200"), ("entity", "PLC")]),
        ("Was [EMAIL] told in 2023, or [CARD_NUMBER]?", [("time", "2023")]),  # what redaction left
        ("Is Pfizer's Comirnaty safe?", [("entity", "Pfizer"), ("entity", "Comirnaty")]),
        ("What was Germany's GDP?", [("jurisdiction", "Germany's"), ("entity", "GDP")]),
        ("How do I upgrade PostgreSQL from 13.4 to 15?", [("entity", "PostgreSQL"), ("version", "from 13.4 to 15")]),
        ("Which log4j versions before 2.17 are affected?", [("entity", "log4j"), ("version", "before 2.17")]),
        ("Is the AirPods case fine with Android 12+?",
         [("entity", "AirPods"), ("entity", "Android"), ("version", "12+")]),
        ("Is it below 30 mL?", [("quantity", "below 30 mL")]),
        ("Which SKUs weigh between 3 and 5 kg?", [("entity", "SKUs"), ("quantity", "between 3 and 5 kg")]),
        ("What does the label say about Ozempic 1 mg?", [("entity", "Ozempic"), ("quantity", "1 mg")]),
        ("What does section 230 or clause 4.2(b) say?", [("entity", "section 230"), ("entity", "clause 4.2(b)")]),
        ("What does Article 6(1)(f) GDPR allow?", [("entity", "Article 6(1)(f) GDPR")]),
        ("Is ISO 27001:2022 needed?", [("entity", "ISO 27001:2022")]),
        ("Does Regulation (EU) 2016/679 apply in Norway?",
         [("entity", "Regulation (EU) 2016/679"), ("jurisdiction", "Norway")]),
        ("Under the Companies Act 2006, who votes?", [("entity", "Companies Act 2006")]),
        ("Which NIST SP 800-53 controls apply?", [("entity", "NIST SP 800-53")]),
        ("Is claim #4521-B open on Oracle 19c?", [("entity", "#4521-B"), ("entity", "Oracle 19c")]),
        ("Which RTX 4090 drivers and which iPhone 8 work?", [("entity", "RTX 4090"), ("entity", "iPhone 8")]),
        ("What does BRCA1 c.68_69del cause in °F?", [("entity", "BRCA1"), ("entity", "c.68_69del")]),
        ("Which NYSE-listed Brazilian firms pay?", [("entity", "NYSE"), ("jurisdiction", "Brazilian")]),
        ("Explain Article 17 of the Constitution of South Africa.",
         [("entity", "Article 17 of the Constitution"), ("jurisdiction", "South Africa")]),
        ("What did the Government of Kenya decide?", [("jurisdiction", "Kenya")]),
        ("Recommended LDL target since last year?", [("entity", "LDL"), ("time", "since last year")]),
        ("Are pre-2015 diesel cars banned in Washington, D.C.?",
         [("time", "pre-2015"), ("jurisdiction", "Washington, D.C.")]),
        ("Who was mayor of Springfield, IL?", [("jurisdiction", "Springfield, IL")]),
        ("Welche Fristen gelten laut § 622 BGB?", [("entity", "§ 622 BGB")]),
        ("Was kostet eine Kilowattstunde Strom in Österreich?", [("jurisdiction", "Österreich")]),
        ("flights under $300 next month", [("quantity", "under $300"), ("time", "next month")]),
        ("Which firms paid in 2H22 or 3Q23?", [("time", "2H22"), ("time", "3Q23")]),
        ("What was paid in the three months ended June 30, 2023?", [("time", "three months ended June 30, 2023")]),
        ("¿Qué dice el artículo 14?", [("entity", "artículo 14")]),
    ],
)  # fmt: skip
def test_questions_give_typed_facets(question: str, expected: list[tuple[str, str]]) -> None:
    """Names, codes, times, places, versions and amounts, each stretch of the question once."""
    assert found(question) == expected


@pytest.mark.parametrize(
    ("phrase", "days"),
    [
        ("last year", "2023-01-01/2023-12-31"),
        ("last quarter", "2024-01-01/2024-03-31"),
        ("this month", "2024-05-01/2024-05-31"),
        ("next week", "2024-05-27/2024-06-02"),
        ("yesterday", "2024-05-19/2024-05-19"),
        ("3 weeks ago", "2024-04-29/2024-05-05"),
        ("in the past six months", "2023-11-20/2024-05-20"),
        ("the next two days", "2024-05-20/2024-05-22"),
        ("year to date", "2024-01-01/2024-05-20"),
        ("last decade", "2010-01-01/2019-12-31"),
        ("in the last decade", "2014-05-20/2024-05-20"),
        ("over the past year", "2023-05-20/2024-05-20"),
        ("prior year", "2023-01-01/2023-12-31"),
        ("the trailing twelve months", "2023-05-20/2024-05-20"),
        ("the last two fiscal years", "2022-05-20/2024-05-20"),
        ("QTD", "2024-04-01/2024-05-20"),
        ("so far this month", "2024-05-01/2024-05-20"),
        ("last March", "2024-03-01/2024-03-31"),
        ("last June", "2023-06-01/2023-06-30"),
        ("next May", "2025-05-01/2025-05-31"),
        ("last Monday", "2024-05-13/2024-05-13"),
        ("next Friday", "2024-05-24/2024-05-24"),
        ("this Sunday", "2024-05-26/2024-05-26"),
        ("since last year", "2023-01-01/9999-12-31"),
        ("before last month", "0001-01-01/2024-03-31"),
        ("after yesterday", "2024-05-20/9999-12-31"),
        ("by the end of this year", "0001-01-01/2024-12-31"),
    ],
)
def test_relative_times_follow_the_clock_of_the_request(phrase: str, days: str) -> None:
    """The calendar's period as an alias; without a clock there is no such facet."""
    (facet,) = extract_facets(f"what was paid {phrase}", today=TODAY)
    assert (facet.value, facet.aliases, facet.why) == (phrase, (days,), "relative time")
    assert found(f"what was paid {phrase}", today=None) == []


def test_relative_times_of_the_host_are_resolved() -> None:
    """A host's facet is matched by the same clock."""
    last_year, place = Facet(kind="time", value="last year"), Facet(kind="jurisdiction", value="Ireland")
    resolved = resolve_times((last_year, place), TODAY)
    assert resolved[0].aliases == ("2023-01-01/2023-12-31",)
    assert resolved[1] is place
    assert resolve_times((last_year,), None) == (last_year,)


def test_what_is_asked_twice_weighs_no_more() -> None:
    """One facet for each value, with its first span."""
    assert found("Is Ireland like Ireland in 2024 or 2024?") == [("jurisdiction", "Ireland"), ("time", "2024")]


ODD = st.text(max_size=300) | st.text("אבגد مصر ́̂ aB1.-€2023é日本", max_size=300)


@given(ODD, st.dates() | st.none())
def test_any_text_is_read_without_an_error(question: str, today: date | None) -> None:
    """Any script: spans slice to the values, weights are positive, nothing overlaps."""
    facets = extract_facets(question, today=today)
    assert all(question[facet.start : facet.end] == facet.value for facet in facets)
    assert all(facet.weight > 0 and facet.why for facet in facets)
    assert all((one.end or 0) <= (other.start or 0) for one, other in pairwise(facets))


@pytest.mark.parametrize("unit", ["Jordan Smith 2024 ", "a", "日本2024年", "١٢٣ ", "e\u0301", "1.", "A-1", "((((", "“"])
def test_a_huge_question_is_read(unit: str) -> None:
    """100 kB of anything end in a bounded number of facets."""
    assert len(extract_facets(unit * (100_000 // len(unit)), today=TODAY)) <= 32


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("does zidovudine (AZT) help", [("AZT", ("zidovudine",))]),
        ("is acute myocardial infarction (AMI) rare", [("AMI", ("acute myocardial infarction",))]),
        ("Does the European Central Bank (ECB) lend?", [("European Central Bank", ("ECB",))]),
    ],
)
def test_an_abbreviation_in_brackets_is_another_name(
    question: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    """One facet with the other form as its alias."""
    assert [(facet.value, facet.aliases) for facet in extract_facets(question)] == expected


@pytest.mark.parametrize(
    "question",
    ["Pay Full Cash Risk", "That is fine. Anyway, Can I file it?", "What Is Small Claims Court? and how much?"],
)
def test_capitals_of_titles_and_beginnings_are_no_names(question: str) -> None:
    """Capitals tell a name only in a sentence that has other words as well."""
    assert extract_facets(question) == ()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Does section 3 of the Theatres Act 1968 hold?", [("entity", "section 3 of the Theatres Act 1968")]),
        ("Is the Public Order (Amendment and Repeal) Act 1996 in force?",
         [("entity", "Public Order (Amendment and Repeal) Act 1996")]),
        ("what does the theatres act 1968 forbid", [("entity", "theatres act 1968")]),
        ("WHO ENFORCES THE THEATRES ACT 1968?", [("entity", "THEATRES ACT 1968")]),
        ("Was Hadley v. Baxendale overruled?", [("entity", "Hadley v. Baxendale")]),
        ("What does 42 U.S.C. § 1983 allow?", [("entity", "42 U.S.C. § 1983")]),
        ("Which BS EN 12845 pumps pass IEEE 1588?", [("entity", "BS EN 12845"), ("entity", "IEEE 1588")]),
        ("What does the Food and Drug Administration say?", [("entity", "Food and Drug Administration")]),
        ("Do Smith & Nephew and Swiss Re merge?", [("entity", "Smith & Nephew"), ("jurisdiction", "Swiss"),
                                                   ("entity", "Re")]),
        ("Is American Airlines cheaper than Swiss trains?",
         [("entity", "American Airlines"), ("jurisdiction", "Swiss")]),
        ("Is the form there in German or Spanish?", [("entity", "German"), ("entity", "Spanish")]),
        ("Is German law strict?", [("jurisdiction", "German")]),
        ("What was the EBITDA of Siemens in H2 2022 and Q1?",
         [("entity", "EBITDA"), ("entity", "Siemens"), ("time", "H2 2022"), ("time", "Q1")]),
        ("does the canon mg3620 print from windows 11", [("entity", "canon mg3620"), ("entity", "windows 11")]),
        ("upgrade pandas 1.5 to run on SQL Server 2019",
         [("entity", "pandas"), ("version", "1.5"), ("entity", "SQL Server 2019")]),
        ("Is Parkinson's disease caused by Candida albicans?",
         [("entity", "Parkinson's disease"), ("entity", "Candida albicans")]),
        ("Does the Fujitsu ix500 Pro scan A4?", [("entity", "Fujitsu ix500 Pro"), ("entity", "A4")]),
        ("it ends with error 0x8007 and exit code 3", [("entity", "error 0x8007"), ("entity", "exit code 3")]),
        ("How Do I Cancel My Plan After the First Month?", []),
        ("Is it open this weekend?", [("time", "this weekend")]),
        ("is the heating in house 3 set to low", []),
        ("Can HMRC fine us under FA 2009 Sch 55?", [("entity", "HMRC"), ("entity", "FA 2009 Sch 55")]),
        ("which code of civil procedure governs service by fax", [("entity", "code of civil procedure")]),
        ("What does the flag -Dfile.encoding do?", [("entity", "-Dfile.encoding")]),
        ("Is N,N-diethyltoluamide safe for children?", [("entity", "N,N-diethyltoluamide")]),
        ("Which APR applies to policy no. KX-4471-2?", [("entity", "APR"), ("entity", "KX-4471-2")]),
        ("Translate 'Please move your bike.' and tell me how many kWh it is", []),
        ("We paid six weeks ago. It's not for us on Saturdays.", [("time", "six weeks ago")]),
        ("Is there a train on the last day of the season?", []),
        ("Does NICE advise it above 53 mmol/mol?", [("entity", "NICE"), ("quantity", "above 53 mmol/mol")]),
        ("why is `podman build` slow", [("entity", "podman build")]),
        ("Was Case C-210/16 applied to the Housing (Rents) (Wales) Act 2014?",
         [("entity", "Case C-210/16"), ("entity", "Housing (Rents) (Wales) Act 2014")]),
        ("a phone in the 700-900$ range", [("quantity", "700-900$")]),
    ],
)  # fmt: skip
def test_names_and_citations_are_read_whole(question: str, expected: list[tuple[str, str]]) -> None:
    """Laws, cases, standards, companies and products are one facet each, in any writing."""
    assert found(question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who pays the ground rent of a leasehold flat?", ["ground rent", "leasehold flat"]),
        ("does aspirin thin the blood", ["aspirin", "blood"]),
        ("Can I appeal a parking fine in Leeds?", []),
        ("How important is it?", []),
        ("Wie hoch ist die Grundsteuer?", []),
        ("Which storage buckets does the Frostline Drive app list?", ["storage buckets"]),
        ("What does rescue by the patrol cost, and is there insurance?", ["rescue", "patrol", "insurance"]),
        ("How many goals did the keeper score?", ["keeper"]),
        ("What does a lost card cost?", ["card"]),
        ("Is invoice RX-2210 still unpaid by the tenant?", ["unpaid", "tenant"]),
    ],
)
def test_key_terms_are_weak(question: str, expected: list[str]) -> None:
    """Words in small letters beside the facets; none where a question has general words alone."""
    terms = key_terms(question, extract_facets(question))
    assert [term.value for term in terms] == expected
    assert all(term.weak and question[term.start : term.end] == term.value for term in terms)


def test_no_facet_that_counts_is_weak() -> None:
    """Key terms come from `key_terms` alone, and overlap no facet."""
    question = "Does the Housing Act 1988 protect lodgers with pets?"
    facets = extract_facets(question)
    assert not any(facet.weak for facet in facets)
    assert [term.value for term in key_terms(question, facets)] == ["lodgers", "pets"]


@given(ODD)
def test_key_terms_of_any_text(question: str) -> None:
    """Never an error, at most three, in order."""
    terms = key_terms(question, extract_facets(question))
    assert len(terms) <= 3
    assert all((one.end or 0) <= (other.start or 0) for one, other in pairwise(terms))


def test_a_year_behind_a_name_keeps_the_name() -> None:
    """It may be a part of the name, which a text may have whatever the chunk's own date is."""
    (_, year) = extract_facets("What does the Arden Housing Plan 2021 say?")
    assert (year.value, year.aliases) == ("2021", ("Arden Housing Plan 2021",))
