package top

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/history"
)

// Reading is the state of a router by its own words.
type Reading struct {
	Status  admin.Status
	History history.Report
	At      time.Time
}

// Source asks a router.
type Source func(ctx context.Context) (Reading, error)

// model is the state of the screen. Its methods are called from one goroutine.
type model struct {
	ask    func() (Reading, error)
	router string // its name
	every  time.Duration

	width, height int // of the terminal; 0: unlimited

	reading Reading
	known   bool      // there is a reading
	failed  error     // of the last question
	now     time.Time // of the last answer or error

	filter   string
	typing   bool // of the filter
	order    int  // of orders
	reversed bool
	day      bool // sparklines are of a day

	chosen        string // ID of the rank with the cursor
	cursor, first int    // rows of the cursor and of the top of the table
	shown         int    // rows of the table that fit
	open          string // ID of the rank with the open page
	scroll        int    // of the page
}

// answer is a message: the router answered, or did not.
type answer struct {
	reading Reading
	err     error
	at      time.Time
}

// due is a message: it is time to ask.
type due struct{}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.question() }

func (m *model) question() tea.Cmd {
	return func() tea.Msg {
		r, err := m.ask()
		return answer{r, err, time.Now()}
	}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case answer:
		m.learn(&msg)
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return due{} })
	case due:
		return m, m.question()
	case tea.PasteMsg:
		if m.typing {
			m.filter += msg.Content
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() tea.View {
	return tea.View{Content: m.screen(), AltScreen: true, WindowTitle: "warmpath top"}
}

// learn takes in an answer. The last reading stays when the router does not answer.
func (m *model) learn(a *answer) {
	m.now, m.failed = a.at, a.err
	if a.err != nil {
		return
	}
	fill(&a.reading.Status)
	m.reading, m.known = a.reading, true
}

// fill puts unknown parts in the place of those that a router of another release leaves out.
func fill(st *admin.Status) {
	for i := range st.Workers {
		w := &st.Workers[i]
		if w.Events == nil {
			w.Events = &admin.EventsStatus{State: "none"}
		}
		if w.GPUs == nil {
			w.GPUs = &admin.GPUHealthStatus{State: "unknown"}
		}
	}
}

// settle keeps the cursor on its worker, and in sight, as rows come, go and change places.
func (m *model) settle(rows []row, height int) {
	if i := slices.IndexFunc(rows, func(r row) bool { return r.ID == m.chosen }); i >= 0 {
		m.cursor = i
	}
	m.cursor = max(0, min(m.cursor, len(rows)-1))
	m.first = max(0, min(m.first, m.cursor, len(rows)-height))
	m.first = max(m.first, m.cursor-height+1)
	m.shown = height
}

// move moves the cursor, where there is a row.
func (m *model) move(by int) bool {
	rows := m.rows()
	if len(rows) == 0 {
		return false
	}
	m.settle(rows, m.shown)
	m.cursor = max(0, min(m.cursor+by, len(rows)-1))
	m.chosen = rows[m.cursor].ID
	return true
}

// press obeys a key.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.typing:
		m.typeFilter(name, key.Text)
		return nil
	case name == "q":
		return tea.Quit
	}
	page := max(m.shown-1, 1)
	by, moves := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "space": page, "home": -1 << 30, "g": -1 << 30, "end": 1 << 30, "G": 1 << 30,
	}[name]
	switch {
	case moves && m.open != "":
		m.scroll = max(0, min(m.scroll+by, 1<<20))
	case moves:
		m.move(by)
	case m.open != "":
		if name == "esc" || name == "enter" || name == "backspace" || name == "left" {
			m.open = ""
		}
	case name == "enter" || name == "right":
		if m.move(0) {
			m.open, m.scroll = m.chosen, 0
		}
	case name == "/":
		m.typing = true
	case name == "esc":
		m.filter = ""
	case name == "s":
		m.order = (m.order + 1) % len(orders)
	case name == "r":
		m.reversed = !m.reversed
	case name == "d":
		m.day = !m.day
	}
	return nil
}

// typeFilter changes the filter by a key.
func (m *model) typeFilter(name, text string) {
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	default:
		m.filter += text
	}
}
