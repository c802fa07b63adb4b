// The worker of Xerial's sqlite-jdbc; README.md says what a worker does.

import java.sql.*;
import java.util.Locale;

public class Worker {
    interface Work {
        void once(int n) throws SQLException;
    }

    static Connection database;
    static long sumOfIds;

    static void expect(boolean holds, String what) throws SQLException {
        if (!holds) throw new SQLException("wrong answer: " + what);
    }

    static void readThenWrite(PreparedStatement read, PreparedStatement write) throws SQLException {
        try {
            database.setAutoCommit(false);
            ResultSet rows = read.executeQuery();
            rows.next();
            int count = rows.getInt(1);
            rows.close();
            write.setInt(1, count + 1);
            write.executeUpdate();
            database.commit();
        } catch (SQLException error) {
            database.rollback();
            throw error;
        } finally {
            database.setAutoCommit(true);
        }
    }

    static void select(PreparedStatement select, int n) throws SQLException {
        int id = n % 1000 + 1;
        select.setInt(1, id);
        ResultSet rows = select.executeQuery();
        expect(rows.next() && rows.getInt(1) == id * 7, "item " + id);
        rows.close();
    }

    static Work of(String job, int writer, Statement statement) throws SQLException {
        if (job.equals("insert")) {
            return n -> statement.executeUpdate("INSERT INTO event (writer, n) VALUES (" + writer + ", " + n + ")");
        }
        if (job.equals("read-then-write")) {
            PreparedStatement read = database.prepareStatement("SELECT n FROM counter WHERE id = 1");
            PreparedStatement write = database.prepareStatement("UPDATE counter SET n = ? WHERE id = 1");
            return n -> readThenWrite(read, write);
        }
        if (job.equals("select")) {
            PreparedStatement select = database.prepareStatement("SELECT n FROM item WHERE id = ?");
            return n -> select(select, n);
        }
        PreparedStatement insert = database.prepareStatement("INSERT INTO event (writer, n) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS);
        return n -> {
            insert.setInt(1, writer);
            insert.setInt(2, n);
            expect(insert.executeUpdate() == 1, "changes");
            ResultSet keys = insert.getGeneratedKeys();
            keys.next();
            sumOfIds += keys.getLong(1);
            keys.close();
        };
    }

    public static void main(String[] words) throws Exception {
        double seconds = Double.parseDouble(words[1]);
        database = DriverManager.getConnection("jdbc:sqlite:" + words[0] + "?busy_timeout=5000&synchronous=FULL");
        Statement statement = database.createStatement();
        Work work = of(words[2], Integer.parseInt(words[3]), statement);
        ResultSet asked = database.createStatement().executeQuery("SELECT sqlite_version()");
        asked.next();
        String version = asked.getString(1);
        asked.close();
        System.out.println("ready");
        System.in.read();
        int done = 0, errors = 0, n = 0;
        double longest = 0;
        String firstError = "";
        long began = System.nanoTime(), now = began;
        while (now - began < seconds * 1e9) {
            try {
                work.once(n++);
                done++;
            } catch (SQLException error) {
                errors++;
                if (firstError.isEmpty()) firstError = error.getMessage().replace('"', '\'').replace('\n', ' ');
            }
            long before = now;
            now = System.nanoTime();
            longest = Math.max(longest, now - before);
        }
        System.out.printf(Locale.ROOT,
            "{\"done\": %d, \"errors\": %d, \"first_error\": \"%s\", \"wait_ms_max\": %.3f, \"seconds\": %.3f, \"id_sum\": %d, \"sqlite\": \"%s\"}%n",
            done, errors, firstError, longest / 1e6, (now - began) / 1e9, sumOfIds, version);
    }
}
