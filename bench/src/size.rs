//! The space a log takes, against the JSON it came from.

use rethread_core::{Block, Incoming, Message, New, Raw, Role};

use crate::run::{Report, Setting, Target, prose};

/// Conversations with tools, as agents have them: short questions, file contents, answers. Once in
/// words, and once in a script without spaces, whose index holds pairs of characters.
pub(crate) fn on_disk(setting: &Setting) -> Vec<Report> {
    let turns = setting.size(4_000, 200);
    let words = (0..turns).flat_map(|number| turn(number, prose)).collect();
    let japanese = (0..turns).flat_map(|number| turn(number, in_japanese)).collect();
    let mut reports = Vec::new();
    reports.extend(stored(
        setting,
        words,
        "limiter",
        ["database of a conversation with tools", "the same, with its search index"],
    ));
    reports.extend(stored(
        setting,
        japanese,
        "検索",
        ["database of a conversation in Japanese", "the same, with its search index"],
    ));
    reports
}

fn stored(
    setting: &Setting,
    messages: Vec<Message>,
    word: &str,
    names: [&'static str; 2],
) -> [Report; 2] {
    let json: Vec<String> =
        messages.iter().map(|message| serde_json::to_string(message).expect("JSON")).collect();
    let raw: u64 = json.iter().map(|line| line.len() as u64 + 1).sum();

    let path = setting.folder.join("size.db");
    drop(std::fs::remove_file(&path));
    let sessions = setting.sessions("size.db");
    let id = sessions.create(&New::default(), None).expect("a session").id();
    for batch in messages.chunks(1_000) {
        let batch = batch.iter().cloned().map(Incoming::from).collect();
        sessions.append(id, batch).expect("appended");
    }
    // Lossless, in the same run: what is read back is what was written, byte for byte.
    let read = sessions.read(id, 0..u64::MAX).expect("entries");
    let back: Vec<String> = read.iter().map(|entry| entry.body.json()).collect();
    assert_eq!(back, json, "what was read back is not what was written");
    drop(sessions);
    let size = || std::fs::metadata(&path).expect("the file").len();
    let without = size();
    // The search index is made by the first search.
    let sessions = setting.sessions("size.db");
    assert_eq!(sessions.search(word, 0, 1).expect("searched").len(), 1);
    drop(sessions);
    let report = |name, bytes: u64| Report {
        name,
        against: format!("the {} KB of JSON lines it came from, read back the same", raw / 1_024),
        figure: bytes as f64 / raw as f64,
        unit: "×",
        target: Target::AtMost(1.0),
        detail: format!("{} KB on disk", bytes / 1_024),
    };
    [report(names[0], without), report(names[1], size())]
}

/// A text of about this many characters, in ordinary words of Japanese, different for each number.
fn in_japanese(number: usize, chars: usize) -> String {
    const WORDS: &str = "会話 検索 記録 保存 要約 文脈 実行 結果 設定 変更 削除 追加 確認 必要 方法 \
        問題 理由 時間 場合 処理 機能 利用 情報 内容 部分 全体 最初 最後 以前 現在 作業 開発 質問 回答 \
        モデル トークン ファイル サーバー データベース プログラム テスト エラー リクエスト フォルダー \
        です ます する した から まで ので けれど ために として について では には とは という こと もの \
        それ これ 私たち 使う 読む 書く 見る 残る 増える 減る 選ぶ 決める 待つ 始める 終わる 続ける 直す";
    const PARTICLES: [&str; 7] = ["は", "が", "を", "に", "で", "の", "と"];
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let (mut text, mut state) = (String::new(), number as u64 + 1);
    while text.len() < chars {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let roll = (state >> 33) as usize;
        text += words[roll % words.len()];
        text +=
            if roll.is_multiple_of(11) { "。" } else { PARTICLES[(roll / 128) % PARTICLES.len()] };
    }
    text
}

fn turn(number: usize, prose: fn(usize, usize) -> String) -> Vec<Message> {
    let id = format!("call_{number:08}");
    let input = Raw::of(&serde_json::json!({ "path": format!("src/part_{}.rs", number % 50) }));
    let call = vec![Block::text(prose(number, 120)), Block::tool_use(&id, "read_file", input)];
    vec![
        Message::user(prose(number * 4, 200)),
        Message::new(Role::Assistant, call),
        Message::tool_result(&id, prose(number * 4 + 2, 500 + (number * 977) % 6_000)),
        Message::assistant(prose(number * 4 + 3, 800)),
    ]
}
