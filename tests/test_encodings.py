"""Encodings: which one a text without a mark is in, over languages, encodings and lengths, by sentences of our own."""

from __future__ import annotations

import contextlib
import time

import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.text import decode

SENTENCES = {
    "cp1252": [
        "Le vieux gardien du phare a été réveillé par la tempête, et il a monté l’escalier en courant.",
        "Die Brücke über den Fluß wird im Frühjahr für größere Fahrzeuge geöffnet.",
        "La señora pidió un café con leche y se sentó junto al balcón mañana y tarde.",
        "A estação ficará fechada até amanhã; não há previsão de reabertura para os comboios.",
        "Båten går från ön klockan åtta på morgonen och kommer åter före kvällen.",
    ],
    "mac_roman": ["Le vieux gardien du phare a été réveillé par la tempête, et l’élève a écouté derrière la fenêtre."],
    "cp1250": [
        "Zażółć gęślą jaźń, a potem wróć do domu i połóż się spać.",
        "Včera večer přišel pošťák a přinesl těžký balík od mé sestřičky.",
        "A hajó este érkezett a kikötőbe, és az őr fölment a világítótoronyba.",
    ],
    "iso8859_2": ["Mój brat kupił wczoraj żółtą łódź i chciałby popłynąć nią aż do ujścia rzeki."],
    "cp1254": ["Gemi sabahleyin limana girdi; yaşlı bekçi ışığı söndürüp aşağı indi, çayını içti."],
    "cp1257": ["Vakar žvejai grįžo į uostą, o švyturio sargas užgesino šviesą ir nuėjo ilsėtis."],
    "cp1251": [
        "Старый смотритель маяка поднялся по лестнице и зажёг лампу.",
        "ВНИМАНИЕ! ДОСТУП НА ТЕРРИТОРИЮ МАЯКА ЗАКРЫТ",
        "Старият пазач на фара се качи по стълбата и запали лампата.",
    ],
    "koi8_r": ["Старый смотритель маяка поднялся по лестнице и зажёг лампу."],
    "cp866": ["Старый смотритель маяка поднялся по лестнице и зажёг лампу."],
    "cp1253": ["Ο γέρος φύλακας του φάρου ανέβηκε τη σκάλα και άναψε τη λάμπα.", "ΠΡΟΣΟΧΗ ΣΤΟ ΚΕΝΟ ΤΗΣ ΑΠΟΒΑΘΡΑΣ"],
    "cp1255": ["שומר המגדלור הזקן עלה במדרגות והדליק את המנורה."],
    "cp1256": ["صعد حارس المنارة العجوز الدرج وأشعل المصباح قبل الغروب."],
    "cp874": ["ผู้ดูแลประภาคารเดินขึ้นบันไดแล้วจุดตะเกียงก่อนพระอาทิตย์ตก"],
    "cp932": [
        "灯台守は階段を上って、明かりをともしました。",
        "むかし、ある島におじいさんがいました。",
        "電源を切ってください。",
    ],
    "euc_jp": [
        "灯台守は階段を上って、明かりをともしました。",
        "むかし、ある島におじいさんがいました。",
        "電源を切ってください。",
    ],
    "gb18030": ["灯塔管理员走上楼梯，点亮了灯。", "请在表格中填写姓名。"],
    "big5": ["燈塔管理員走上樓梯，點亮了燈。", "請在表格中填寫姓名。"],
    "cp949": ["등대지기는 계단을 올라가 불을 켰습니다.", "오류가 발생했습니다."],
}
ENGLISH = "The keeper of the lighthouse wrote a long report about the lamp, and every visitor was asked to sign the book. "
WORDS = (
    "José, Zoë, naïve, Müller, Århus, Curaçao, Québec, café, £5, 25°C, ±3, “so”, it’s, –, ½, ¥5, § 3, ¶ 4, µm, 0.2 µm, ©, 1º, ×"
)


@pytest.mark.parametrize("encoding", SENTENCES)
@pytest.mark.parametrize("times", [1, 40])
def test_a_sentence_is_enough_to_tell_an_encoding(encoding: str, times: int) -> None:
    texts = ["\n".join([sentence] * times) for sentence in SENTENCES[encoding]]

    assert texts == [decode(text.encode(encoding))[0] for text in texts]


@pytest.mark.parametrize("word", WORDS.split(", "))
@pytest.mark.parametrize("times", [1, 20, 400])
def test_a_single_odd_word_among_english_is_windows_1252(word: str, times: int) -> None:
    text = ENGLISH * times + word + " " + ENGLISH * times

    assert decode(text.encode("cp1252"))[0] == text


@pytest.mark.parametrize("encoding", [e for e in SENTENCES if not e.startswith(("cp1250", "iso", "mac", "cp1257", "cp1254"))])
def test_a_comment_in_another_script_among_english_is_read(encoding: str) -> None:
    text = f"{ENGLISH}\n" * 30 + f"// {SENTENCES[encoding][0]}\n" + f"{ENGLISH}\n" * 30

    assert decode(text.encode(encoding))[0] == text


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("encoding", ["cp1251", "cp1253", "cp1255", "cp1256", "cp874", "cp932", "gb18030", "big5", "cp949"])
def test_utf16_without_a_mark_is_told_in_any_script(encoding: str, order: str) -> None:
    text = "\n".join(SENTENCES[encoding])

    assert decode(text.encode(order)) == (text, {"encoding": order})


def test_euc_jp_is_no_damaged_utf8() -> None:
    text = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"

    assert decode(text.encode("euc_jp")) == (text, {"encoding": "euc_jp"})


@pytest.mark.parametrize(
    "data", [b"\xc3\xa9" * 200_000 + b"\xe9", b"a\xe9" * 300_000, b"\xc0\xd0 " * 200_000, b"x" * 600_000 + b"\xe9"]
)
def test_hostile_bytes_are_told_in_linear_time(data: bytes) -> None:
    start = time.process_time()
    with contextlib.suppress(DocumentError):
        decode(data)

    assert time.process_time() - start < 4
