"""Key terms of a question in small letters: what it is about where no name says so ("limitation period", "netflix").

They are weak facets: evidence may say them in other words, so that they count in no score. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from ragtrace.coverage.text import content_words, is_english_question
from ragtrace.coverage.values.value import unit_of
from ragtrace.types import Facet

__all__ = ["is_plain_word", "key_terms"]

MOST: Final = 3  # terms of one question; a longer word or phrase is rarer, and says more
READ: Final = 400  # characters that are read; a longer question tells its case
_WORDS: Final = 3  # words of one term
_WORD: Final = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_ASIDES: Final = frozenset("([{@/#$%=_\\")
_LEAST: Final = 3  # letters

_VERBS: Final = """
    abolish accept access accrue accuse achieve act activate adapt add address adhere adopt advise affect afford
    agree aid aim allocate allow amend amount announce answer appeal appear apply appoint approve argue arise
    arrest arrive ask assert assess assign assist assume attach attack attempt attend audit audition authenticate
    avoid await award bake ban bark base bear become beep begin behave believe belong bend bill bind bite blame
    bleed block boil book boost boot borrow bother break breathe breed brew bring build bump burn buy calculate
    call cancel care carry cause cease certify change charge cheat check chew choose cite claim clean clear close
    coincide collapse collect combat combine come commence commit commute compare compel compensate compete compile
    complete comply compose comprise conceal conclude conduct confer configure confine confirm confiscate connect
    consider consist contact contain contest continue contradict contribute control convert convict cook cooperate
    cope copy correspond cost count counteract cover crash create criticize cure curl damage deal debug decide
    declare decline decrease deduce deduct deem defeat defend defer define delay delete deliver demand denote deny
    depend deploy deport deprive derive describe deserve design detain detect deteriorate determine develop devote
    diagnose dictate differ dig disable disagree disappear disclose disconnect discover discuss dismiss dispense
    dispose dispute disregard dissolve distinguish distribute divide do dominate donate downgrade download draft
    drain draw drive drop duplicate dye earn eat elaborate elect eliminate emerge emit employ enable encounter
    encourage end endure enforce enhance enjoy enroll ensure entail enter enumerate erase err escalate establish
    estimate evaluate evict evoke evolve examine exceed exclude execute exempt exercise exert exist expand expect
    expel experience expire explain exploit export expose express extend extract face facilitate fail fall feel
    ferment fetch figure fill find fine finish fire fit fix flee fly fold follow forbid force forget forgive form
    formulate forward found freeze fulfil fulfill gain gather generate get give glue go govern grab grant grind
    grip grow guarantee guide halt handle hang happen harm hatch hate haul haunt heal hear help hesitate hide hike
    hire hit hold hurt identify ignore illustrate imagine implement import impose improve include incorporate
    increase incur indicate induce infer inflate inflict influence inform infringe inherit inhibit initiate inject
    insert inspect install instruct integrate intend interact interpret intervene introduce invade invalidate
    invent invest investigate invoke involve irritate isolate issue itch jam join judge justify keep kick know
    lapse launch lay lead leak learn leave lend lengthen let lick lift light like limit link list listen live load
    lodge log lose maintain make manage mark mean measure meet melt mention merge migrate minimise minimize mislead
    misunderstand mitigate modify monitor mount move mow narrate necessitate need neglect negotiate nominate
    notarize notice notify obey oblige obtain occur offer omit open operate oppose opt order organize originate
    override oversee overwrite owe own park pass pause pay peel penalize penetrate perceive perform permit persist
    persuade photograph pick pin pinch place plan play plead point poison polish pose possess postpone pour precede
    preclude predict prefer prepare prescribe present preserve presume prevail prevent proceed procure produce
    prohibit prolong promote prompt propagate propose prosecute protect prove provide provoke prune publish pull
    purchase pursue push put qualify quit quote raise ratify reach react read realize reassure rebuild receive
    reckon recognize recollect recommend record recover rectify recycle redeem reduce refer reflect refrain refund
    refuse refute regard register regulate reimburse reinstate reiterate reject relate release relocate rely remain
    remember remove renew renovate rent repair repeal repeat replace report represent request require rescind
    resemble reserve reset reside resign resist resit resolve respond restart restore restrict result resume retain
    retire retrieve return reveal reverse review revise revoke reword ring rinse roll rot rotate rub run rust sack
    safeguard sail sand satisfy saturate save say scan score scratch scrub seal search see seek seem seize select
    self-certify sell send separate serve set settle sew shake share shift ship shorten show shrink shut sign
    sketch skip sleep slice slow smell soak solve sow speak specify spell spend spill spin split spray spread
    squeeze stab stand start state stay steal stem stick stink stipulate stir stop store strengthen stretch strike
    study submit subscribe subside substitute succeed sue suffer suffocate suggest suit summarise summarize
    supersede supervise supplement support suppose surrender surround survive suspect sustain swallow swap sweep
    swell swim switch tackle take talk teach tear tell tempt terminate test testify think throw tighten tolerate
    touch trace track train transfer transform translate transpose trap travel treat trigger trim try tumble turn
    twist uncover undergo undermine understand undertake unite unlock update upgrade upload urge use utilise
    utilize vaccinate validate vanish vary verify violate visit vote wait waive walk want warn wash watch weaken
    wear weigh whisper win wipe withdraw wonder work worry write yield
    """
_IRREGULAR: Final = """
    aren't arent ate beat beaten became began begun born bought brought built came can't cant caught chose chosen
    couldn't did didn't didnt die died dies doesn't doesnt don't done dont drawn drew driven drove dying eaten
    fallen fell felt fled flew flown forgot forgotten fought found froze frozen gave given gone gonna got gotten
    grew grown had hasn't hasnt haven't havent heard held herself hid hidden himself how's hows hung i'd i'll i'm
    i've im isn't isnt it's itself ive kept knew known laid lay led left let's lets lost made meant met myself paid
    ran risen rose said sang sank saw seen sent set sewn shot shouldn't sing singing sings sold spent spoke spoken
    stole stolen stood stuck sunk swore sworn taken taught that's thats themselves there's theres they're thought
    told took tore torn understood undo wanna wasn't wasnt we're went what's whats where's wheres who's whos woke
    won won't wont wore worn wouldn't written wrote you're youre
    """
_NOUNS: Final = """
    ability action activity addition advance advancement advantage advice afternoon age aim amendment amount
    anybody anyone anything app application approach area aspect autumn average background basis beginning behalf
    benefit bit body bottom breakdown bunch capability case cast category century chance characteristic child
    children choice circumstance city class client code combination company comparison component concept concern
    conclusion condition connection consequence consideration context counter country couple court criteria
    criterion criticism customer dad date daughter day decade definition degree description detail development
    difference difficulty disadvantage discussion distinction dozen drawback duration effect effort element end
    entry error evening event everybody everyone everything evidence example exception excuse existence explanation
    extent fact factor father feature field film fix flag form friday fridays friend friends front function future
    goal group guideline guy guys haha half hello hey hi history hour husband idea impact implication
    importance improvement info information initiative instance instruction intention interest issue item job kid
    kind lack language level life line list lol look lot love main man manner material matter matters max meaning
    means mechanism member men method midnight min minute mistake model mom moment monday mondays money month
    morning most mother movie mum name nature night nobody noon nothing notion number objective occasion occurrence
    ok okay one opinion option order origin outcome output overview pack page pair part people percent percentage
    period person perspective piece place please point position possibility pound power practice precaution
    presence principle problem procedure process progress project proof pupil purpose quality quantity quarter
    question quid range rate ratio reality rear reason recommendation reference regard relation relationship
    relevance requirement researcher resource response responsibility rest result road role rule saturday saturdays
    scenario scene scope second section segment selection sense series server service set shape shortage side
    significance situation size solution somebody someone something son song sorry sort source spring stage
    standpoint start state statement status step story strategy stuff subject suggestion summary summer sunday
    sundays system tag task technique tendency term text thank thanks thing thought thursday thursdays time tip
    today tomorrow tonight tool top topic total town treatment trend trick trouble truth tuesday tuesdays type
    usage use user value variety version view wat way wednesday wednesdays week weekend whole wife winter woman
    women word world year yesterday
    """
_OTHERS: Final = """
    able aboard about abroad absolute academic acceptable accessible accidental according accurate across actual
    additional adequate afloat afterwards against ago ah alike alive allowed alone along already also alternative
    although altogether always amid among annual another anyhow anymore anytime anyway apart apiece appropriate
    approximate arbitral around artificial ashore asleep astray available awake aware away back bad badly bare
    barren based basic beautiful because beforehand behind beside besides best better beyond big bigger biggest
    billion blank blind bold born both brief bright broad broken btw busy calm capable careful cause central
    certain cheap cheaper cheapest cleaner clear close closer closest cloudy cold colder coldest commercial common
    complete complex comprehensive compulsory concerning considerable constant contemporary contrary convenient
    correct crucial current daily dangerous dark dead dearer deep despite detailed different difficult direct
    diverse double downstairs dozen drunk dry due dull during earlier early easier easiest east easy economic
    effective efficient eg eight eighth either elderly eleven eligible else elsewhere emerging empty enough entire
    entitled equal especially essential etc ethical even eventually ever every everyday everyone's exact excellent
    except exempt existing expensive external extra extreme fair fake false familiar famous fancy far fast faster
    fastest faulty feasible female few fewer fifth final financial fine first first-time five fluent following fond
    foreign forth four fourth free frequent fresh full fundamental further general genuine good great greater
    halfway handwritten happy hard harder hardest hazardous heavy helpful high higher highest hmm hot hotter
    hottest huge human hundred ideal identical idle ie ill illegal imho immediate important impossible inadequate
    independent individual indoor indoors initial inland inside instead intended intense interested interesting
    internal invalid involved inward it'll itll junior key large larger largest last late later latest latter least
    legal less like likely limited little local long longer longest loose loud loudly low lower lowest lucky mainly
    major male mandatory many maximum meantime mere mid-season midday middle midnight might million minimum minor
    minus mislaid missing mobile moderate modern more moreover much multiple mutual narrow national native natural
    near nearby nearest necessary negative neither neutral new newer newest next nice nicer nine ninth nobody noisy
    non none normal north notable novel now nowadays numerous obvious occasional odd often oh old older oldest once
    only onto open opposite optimal optional ordinary original other otherwise ourselves outdoor outdoors outside
    outward overall overdue overnight overpaid own parallel partial particular partway past per perfect permanent
    personal physical plain pleasant plenty pls plz poor poorer popular positive possible post potential powerful
    practical precise present pretty previous primary prime prior private probable professional prominent proper
    prospective public pure queer quick quiet quite rainy rapid rare rather ready real reasonable recent redundant
    regarding regular related relative relevant reliable remote responsible rich richer right right-hand rough
    roughly round safe safely safer safest same satisfied seasonal secondary secure self senior separate serious
    seven seventh several severe sharp short shortest significant similar simple simplified since single six sixth
    slight slow slower sluggish small smaller smallest smart smooth snowiest so social soft softer sole solid some
    sometimes somewhere soon sooner south spare special specific spot-on stable standard steady steep still stormy
    straight strict stricter strictest strong stronger strongest stuck stuff such sudden sufficient suitable
    sunniest sunny supposed sure surprising sustainable tall temporary ten tenth they'd they'll they've thick
    thicker thin thinner third though thousand three throughout thx tidy till tiny together tough toward towards
    traditional true twelve twice two ty typical ugly uh um unable uncommon unfair unique unknown unless unlike
    unlikely unreadable unresolved until untouched unusual upcoming upon upper upside upstairs urgent useful usual
    vague valid valuable various vast versus via vital warm warmer we'd we'll we've weak weaker weekday weekdays
    well west wet whatever whenever whereas wherever whether whichever who'd who'll whoever whom whose wide wider
    widest wild windy wise within without wonderful wooden worldwide worse worst worth wrong yes yet you'd you'll
    you've young younger youngest
    """


_HEADS: Final = """
    access account act address answer appeal attempt audit award ban base basis benefit bill block book break breed
    burn call capability care case category cause change charge check choice claim class closure code combination
    component concern condition connection contact content contest contract control controller copy cost cover
    criteria damage day deal decision degree delay delivery demand deposit description design development display
    dispute document download drive drop effect element end enforcement estimate evaluation exercise experience
    export exposure factor failure fault feature fee field fight figure file fix flow form function gain group
    guarantee guide guideline history hour impact import improvement increase info information initiative insertion
    instruction integration interaction interest investment issue job judge kit law leak level life limit line link
    list load log look loss maintenance management manager mark measure measurement method mix mode model move name
    need notice number object objective offer operation operator option order outcome page part payment percentage
    performance period permit place plan plane plate play point position practice prediction preparation principle
    problem procedure process producer product production program project promotion proof protection protocol
    provider publication purchase quality query question quote range rate ratio record recovery reduction reference
    refund register registration regulation relation release rent repair replacement report representation request
    requirement research resource response rest restriction result return review ride right ring risk role roll
    rule run scan scenario schedule score seal search section security selection separation series service session
    set setting settlement share shift ship show side sign size solution source speed spend spray staff stage
    standard start state statement station status stay step stop storage store story strategy strike study subject
    submission supplement support switch system task technique tendency termination test time tip tool top total
    trace tracker trade trail training transfer transformation treatment trend trip type understanding unit update
    upgrade usage use user value variety verification version view visit vote wait walk warning wash watch water
    way week win work worker world writer year yield
    """  # of these, the plain ones may end a term: burner controller, notice period
_AUXILIARIES: Final = frozenset("do does did can could will would should must may might shall dont doesnt".split())
_ARTICLES: Final = frozenset("a an the my your our their his her its this that these those".split())
_DESCRIBING: Final = re.compile(r"\w+(?:ed|ing|ous|ible|able|ful|ive|less|ical)")
_PREDICATE: Final = re.compile(r"\w+(?:ous|ible|able|ful|less|ical)")
_PARTITIVE: Final = frozenset("part end kind type sort side parts ends kinds types sorts sides".split())
_KINDS: Final = frozenset("ticket policy invoice order flag bug incident account licence license contract".split())
"""What a code is the number of: "policy no. HX-2231-9"."""
_BEFORE_CODE: Final = re.compile(r" (?:(?:no|nr)\.? |number |#)?")
_WITHIN: Final = frozenset("of by in for from with on at to and or i you we they he she it one me us".split())
"""What may stand between an auxiliary and its verb, beside articles, names and nouns: does a night in the hut cost."""
_COPULA: Final = frozenset("be been being is are was were have has".split())
_PARTICIPLE: Final = re.compile(r"\w{3,}(?:ed|ing)")


def _inflected(written: str, *, verbs: bool) -> Iterator[str]:
    """Words with their plurals, and with the forms of regular verbs."""
    for word in written.split():
        root = word[:-1] if word.endswith(("e", "y")) else word
        yield word
        yield f"{root}ies" if word.endswith("y") and word[-2] not in "aeou" else f"{word}s"
        yield f"{word}es"
        if verbs:
            doubled = f"{word}{word[-1]}"
            past = f"{root}ied" if word.endswith("y") and word[-2] not in "aeo" else f"{word.removesuffix('e')}ed"
            yield from (past, f"{word.removesuffix('e')}ing", f"{doubled}ed", f"{doubled}ing")


@lru_cache(maxsize=1)
def _plain() -> frozenset[str]:
    return frozenset(
        (*_inflected(_VERBS, verbs=True), *_inflected(_NOUNS, verbs=False), *_IRREGULAR.split(), *_OTHERS.split())
    )


@lru_cache(maxsize=1)
def _third_persons() -> frozenset[str]:
    return frozenset(form for form in _inflected(_VERBS, verbs=False) if form.endswith("s"))


@lru_cache(maxsize=1)
def _heads() -> frozenset[str]:
    return frozenset(_inflected(f"{_HEADS} {_NOUNS}", verbs=False))


@lru_cache(maxsize=16384)
def is_plain_word(word: str) -> bool:
    """Whether a word alone names no matter: a stop word, a common verb, a word as "way", "example", "important"."""
    folded = word.casefold().replace("’", "'")
    return (
        len(folded) < _LEAST
        or folded in _plain()
        or not content_words(folded)
        or (folded.endswith("ly") and len(folded) > 5)
        or bool(unit_of(folded))
    )


def key_terms(question: str, facets: Sequence[Facet] = (), *, any_case: bool = False) -> tuple[Facet, ...]:
    """Weak facets of `question` beside those that were read, the longest `MOST` of them, in order of appearance.

    A term is a run of words in small letters, the last `_WORDS` of them, between words that name no matter; one of
    these may end it. None in another language than English, nor in a long question, which tells the asker's case.
    any_case: of a title or of shouting, where capitals tell nothing.
    """
    text = question.casefold()
    if len(text) > READ or len(text) != len(question) or not is_english_question(question):
        return ()
    found: dict[str, Facet] = {}
    for start, end in _runs(question, text, facets, any_case=any_case):
        found.setdefault(
            text[start:end],
            Facet(kind="entity", value=question[start:end], source="query", start=start, end=end, why="key term",
                  weak=True),
        )  # fmt: skip
    longest = sorted(found.values(), key=lambda term: -len(term.value))[:MOST]
    return tuple(term for term in found.values() if term in longest)


def _runs(question: str, text: str, facets: Sequence[Facet], *, any_case: bool) -> Iterator[tuple[int, int]]:
    run: list[re.Match[str]] = []
    taken = [(facet.start or 0, facet.end or 0) for facet in facets]
    words = list(_WORD.finditer(text))
    verb_due = False  # an auxiliary stands before, and its verb does not yet
    for position, match in enumerate(words):
        word, (start, end) = match.group(), match.span()
        following = words[position + 1] if position + 1 < len(words) else None
        before = words[position - 1].group() if position else ""
        if run and text[run[-1].end() : start] != " ":
            yield from _term(run, text, taken)
            run = []
        is_plain = is_plain_word(word)
        aside = (not is_plain or bool(run) or verb_due) and (
            not (any_case or question[start].islower())
            or bool(_ASIDES.intersection(text[max(0, start - 1) : start] + text[end : end + 1]))
            or any(first < end and start < last for first, last in taken)
        )
        is_term = not (aside or is_plain or _is_verb(text, match, before, following))
        is_subject = following is not None and following.group() in _COPULA and _adjoins(text, match, following)
        is_head = bool(run) and not aside and (is_subject or not verb_due) and _is_head(word, following)
        if is_term or is_head:
            run.append(match)
        if run and run[-1] is not match:
            if verb_due and len(run) > 1 and word in _ARTICLES:
                run.pop()  # "does aspirin thin the blood": the verb
            yield from _term(run, text, taken)
            run = []
        if run and not is_term and not (following and _joins(text, match, following)):
            yield from _term(run, text, taken)  # a head ends its term, unless another follows: "row level security"
            run = []
        is_within = is_term or aside or word in _ARTICLES or word in _WITHIN or before in _ARTICLES
        verb_due = word in _AUXILIARIES or (verb_due and is_within)
    yield from _term(run, text, taken)


def _joins(text: str, match: re.Match[str], following: re.Match[str]) -> bool:
    """Whether the next word is a head as well, directly behind."""
    return _adjoins(text, match, following) and following.group() in _heads()


def _adjoins(text: str, match: re.Match[str], following: re.Match[str]) -> bool:
    return text[match.end() : following.start()] == " "


def _is_head(word: str, following: re.Match[str] | None) -> bool:
    """Whether a plain word may end a term; not "part of", nor "the test shows that"."""
    behind = following.group() if following else ""
    if word not in _heads() or (word in _PARTITIVE and behind == "of"):
        return False
    goes_on = behind in _ARTICLES or (behind not in _COPULA and bool(content_words(behind)))
    return not (word in _third_persons() and bool(behind) and goes_on)


def _is_verb(text: str, match: re.Match[str], before: str, following: re.Match[str] | None) -> bool:
    """Whether an unknown word is used as a verb or describes: "to hunt the", "addicted to"."""
    word = match.group()
    if before and word.endswith("ed") and not is_plain_word(before):
        return True  # "poison killed"
    is_next = following is not None and text[match.end() : following.start()] == " "
    following_word = following.group() if following and is_next else ""
    if before == "to" and (following_word in _ARTICLES or (following_word and not is_plain_word(following_word))):
        return True
    joins = bool(following_word) and (not is_plain_word(following_word) or following_word in _heads())
    if word.endswith("ing") and before in _COPULA:
        return True
    return bool(_PARTICIPLE.fullmatch(word)) and not joins and (word.endswith("ed") or is_plain_word(before or "a"))


def _term(run: list[re.Match[str]], text: str, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """A run as a term; not a word that describes, nor one that goes on with a name before it ("Visa card")."""
    run = run[-_WORDS:]
    while len(run) > 1 and _PREDICATE.fullmatch(run[-1].group()):
        run = run[:-1]
    naming = [match for match in run if not (is_plain_word(match.group()) or _DESCRIBING.fullmatch(match.group()))]
    if not naming or (len(run) == 1 and run[0].group().endswith(("'s", "’s"))):
        return
    start, end = run[0].start(), run[-1].end()
    tells_kind = len(run) == 1 and any(_BEFORE_CODE.fullmatch(text, end, first) for first, _ in taken)
    if not (tells_kind and text[start:end] in _KINDS) and not any(
        last == start - 1 and text[last] == " " for _, last in taken
    ):
        yield start, end
