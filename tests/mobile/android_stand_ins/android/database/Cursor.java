package android.database;

public class Cursor {
    public int getColumnIndex(String columnName) {
        return columnName.equals("_display_name") ? 2 : -1;
    }

    public boolean moveToFirst() {
        return true;
    }

    public String getString(int columnIndex) {
        return "my receipt.json";
    }

    public void close() {}
}
